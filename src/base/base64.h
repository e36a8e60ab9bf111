/*
 * base64: bytes in sixty-four letters, as Go reads and writes them.
 *
 * PADDED is the usual alphabet with '=' at the end, where line breaks are passed over. URL is that
 * of JWTs, without padding, and nothing is passed over. ANY is JSON's: either alphabet, padded or
 * not, as the text looks, and line breaks are passed over; it is written PADDED. Bits that the last
 * letter has left over are not looked at.
 */
#pragma once

#include "base/buf.h"

enum base64_kind { BASE64_PADDED, BASE64_URL, BASE64_ANY };

void base64_encode(enum base64_kind kind, struct bytes raw, struct buf *out);

/* Appends what it stands for. False: it is none, and something may have been appended. */
bool base64_decode(enum base64_kind kind, struct bytes text, struct buf *out);

/* Of the usual alphabet. */
bool base64_is_letter(uint8_t c);
