#include "server/quota.h"

#include "base/limits.h"
#include "base/logger.h"
#include "base/text.h"

#define NAME             LOG_STR("quota-name", "v3-applier") /* etcd has three, and tells of one */
#define QUOTA_BYTES_MOST (8ll * 1024 * MIB)                  /* what etcd recommends, at most */

static const char *size_text(struct buf *out, int64_t bytes)
{
    buf_clear(out);
    text_append_size(out, (uint64_t)bytes);
    return buf_str(out);
}

void quota_say(const struct logger *logger, int64_t quota_bytes)
{
    struct buf size = {0}, most = {0};

    if (quota_bytes < 0) {
        log_info(logger, "disabled backend quota", NAME, LOG_I64("quota-size-bytes", quota_bytes));
        return;
    }
    if (quota_bytes > QUOTA_BYTES_MOST)
        log_warn(logger, "quota exceeds the maximum value", NAME,
                 LOG_I64("quota-size-bytes", quota_bytes),
                 LOG_STR("quota-size", size_text(&size, quota_bytes)),
                 LOG_I64("quota-maximum-size-bytes", QUOTA_BYTES_MOST),
                 LOG_STR("quota-maximum-size", size_text(&most, QUOTA_BYTES_MOST)));
    int64_t bytes = quota_bytes == 0 ? APPLY_QUOTA_BYTES_DEFAULT : quota_bytes;
    log_info(
        logger,
        quota_bytes == 0 ? "enabled backend quota with default value" : "enabled backend quota",
        NAME, LOG_I64("quota-size-bytes", bytes), LOG_STR("quota-size", size_text(&size, bytes)));
    buf_free(&size);
    buf_free(&most);
}
