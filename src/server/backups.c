#include "server/backups.h"

#include "base/assert.h"
#include "base/mem.h"
#include "server/cutting.h"
#include "server/host.h"

struct backup_request {
    struct list link;
    struct backups *backups;
    struct api_call *call;
    struct cutting_request request;
    struct buf host;
    bool is_cut;
    struct image *image; /* NULL: not yet, or none was to be had */
};

void backups_init(struct backups *b, struct cutting *cutting)
{
    *b = (struct backups){.cutting = cutting};
    list_init(&b->asked);
    list_init(&b->cut);
}

static void request_free(struct backup_request *r)
{
    list_remove(&r->link);
    buf_free(&r->host);
    mem_free(r);
}

static void free_all(struct list *requests)
{
    LIST_FOREACH (link, requests) {
        struct backup_request *r = container_of(link, struct backup_request, link);
        cutting_forget(r->backups->cutting, &r->request);
        request_free(r);
    }
}

void backups_free(struct backups *b)
{
    if (!b->asked.next)
        return;
    free_all(&b->asked);
    free_all(&b->cut);
}

static void was_cut(struct cutting_request *request, struct image *image, const char *why)
{
    struct backup_request *r = container_of(request, struct backup_request, request);

    (void)why; /* who stops tells all; else there are too many */
    r->image = image;
    r->is_cut = true;
    list_remove(&r->link);
    list_push_back(&r->backups->cut, &r->link);
}

void backups_need(struct backups *b, const struct api_need *need)
{
    struct backup_request *r = mem_new(struct backup_request);

    assert(need->need == API_IMAGE);
    *r = (struct backup_request){.backups = b, .call = need->call, .request = {.on_cut = was_cut}};
    host_of_remote(need->remote, &r->host);
    r->request.host = buf_bytes(&r->host);
    list_init(&r->link);
    list_push_back(&b->asked, &r->link);
    cutting_ask(b->cutting, &r->request);
}

static struct backup_request *find(const struct list *requests, const struct api_call *c)
{
    LIST_FOREACH (link, requests) {
        struct backup_request *r = container_of(link, struct backup_request, link);
        if (r->call == c)
            return r;
    }
    return NULL;
}

bool backups_forget(struct backups *b, const struct api_call *c)
{
    struct backup_request *r = find(&b->asked, c);

    if (!r)
        r = find(&b->cut, c);
    if (!r)
        return false;
    cutting_forget(b->cutting, &r->request);
    image_close(r->image);
    request_free(r);
    return true;
}

struct api_call *backups_take(struct backups *b, struct image **image)
{
    if (list_empty(&b->cut))
        return NULL;
    struct backup_request *r = container_of(b->cut.next, struct backup_request, link);
    struct api_call *call = r->call;

    *image = r->image;
    request_free(r);
    return call;
}

void backups_check(const struct backups *b)
{
    LIST_FOREACH (link, &b->asked) {
        const struct backup_request *r = container_of(link, struct backup_request, link);
        assert(!r->is_cut);
        assert(!r->image);
    }
    LIST_FOREACH (link, &b->cut)
        assert(container_of(link, struct backup_request, link)->is_cut);
}
