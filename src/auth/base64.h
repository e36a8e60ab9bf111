/*
 * base64: as Go reads and writes it, for hashes of passwords and for JWTs.
 *
 * PADDED is the usual alphabet with '=' at the end; line breaks are passed over, as Go does. URL is
 * that of JWTs, without padding, and nothing is passed over. Bits that the last letter has left
 * over are not looked at in either.
 */
#pragma once

#include "base/buf.h"

enum base64_kind { BASE64_PADDED, BASE64_URL };

void base64_encode(enum base64_kind kind, struct bytes raw, struct buf *out);

/* Appends what it stands for. False: it is none, and something may have been appended. */
bool base64_decode(enum base64_kind kind, struct bytes text, struct buf *out);
