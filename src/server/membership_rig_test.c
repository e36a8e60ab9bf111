#include "server/membership_rig_test.h"

#include <stdio.h>

/* In order of address, since ids are made of the time: "1:m1 2:m2 4:- 5:m5(learner)", by the last
 * number of the first peer URL. */
static void append_list(struct buf *out, const struct pb_member *members, size_t count)
{
    buf_clear(out);
    for (unsigned host = 1; host < 10; host++) {
        for (size_t i = 0; i < count; i++) {
            const struct pb_member *m = &members[i];
            CHECK(m->peer_urls.count > 0);
            CHECK(m->peer_urls.at[0].len > 14);
            if (m->peer_urls.at[0].at[14] != '0' + host)
                continue;
            buf_printf(out, "%s%u:", out->len > 0 ? " " : "", host);
            buf_append(out, m->name.len > 0 ? m->name : BYTES("-"));
            buf_append_str(out, m->is_learner ? "(learner)" : "");
        }
    }
}

/* The members that a response names, or its error. Good until the next. */
const char *membership_told(struct cluster_rig *r, struct visit *v, uint64_t *added)
{
    static char text[256];
    struct arena arena = {0};
    struct pb_member_add_response add = {0};
    struct pb_members_response change = {0};
    struct buf out = {0};

    cluster_rig_until_over(r, v);
    if (v->message_count == 0) {
        buf_append(&out, buf_bytes(&v->text));
    } else if (added) {
        visit_decode(v, 0, &pb_member_add_response_schema, &arena, &add);
        CHECK_EQ(add.header->revision, 0);
        *added = add.member->id;
        append_list(&out, add.members.at, add.members.count);
    } else {
        visit_decode(v, 0, &pb_member_list_response_schema, &arena, &change);
        CHECK_EQ(change.header->revision, 0);
        append_list(&out, change.members.at, change.members.count);
    }
    snprintf(text, sizeof(text), "%s", buf_str(&out));
    buf_free(&out);
    arena_free(&arena);
    visit_free(v);
    return text;
}

void membership_begin_add(struct cluster_rig *r, unsigned n, const char *url, bool is_learner,
                          struct visit *v)
{
    struct bytes urls[] = {bytes_of_str(url)};
    struct pb_member_add_request add = {.is_learner = is_learner};

    add.peer_urls.at = urls;
    add.peer_urls.count = *url ? 1 : 0;
    cluster_rig_ask(r, n, v, "/etcdserverpb.Cluster/MemberAdd", &pb_member_add_request_schema,
                    &add);
}

const char *membership_add(struct cluster_rig *r, unsigned n, const char *url, bool is_learner,
                           uint64_t *id)
{
    struct visit v;
    uint64_t unused;

    membership_begin_add(r, n, url, is_learner, &v);
    return membership_told(r, &v, id ? id : &unused);
}

const char *membership_change(struct cluster_rig *r, unsigned n, const char *method, uint64_t id)
{
    struct visit v;
    char path[64];

    snprintf(path, sizeof(path), "/etcdserverpb.Cluster/%s", method);
    cluster_rig_ask(r, n, &v, path, &pb_member_remove_request_schema,
                    &(struct pb_member_id){.id = id});
    return membership_told(r, &v, NULL);
}

const char *membership_update(struct cluster_rig *r, unsigned n, uint64_t id, const char *url)
{
    struct visit v;
    struct bytes urls[] = {bytes_of_str(url)};
    struct pb_member_update_request request = {.id = id};

    request.peer_urls.at = urls;
    request.peer_urls.count = *url ? 1 : 0;
    cluster_rig_ask(r, n, &v, "/etcdserverpb.Cluster/MemberUpdate",
                    &pb_member_update_request_schema, &request);
    return membership_told(r, &v, NULL);
}

const char *membership_list(struct cluster_rig *r, unsigned n, bool linearizable)
{
    struct visit v;

    cluster_rig_ask(r, n, &v, "/etcdserverpb.Cluster/MemberList", &pb_member_list_request_schema,
                    &(struct pb_member_list_request){.linearizable = linearizable});
    return membership_told(r, &v, NULL);
}

uint64_t membership_id(const struct cluster_rig *r, unsigned n)
{
    return server_status(r->at[n]->server).member_id;
}

/* A cluster that has been together for long enough to be called healthy. */
void membership_open(struct cluster_rig *r, unsigned count, const char *const *flags)
{
    cluster_rig_open(r, count, flags);
    cluster_rig_start_all(r);
    cluster_rig_leader(r);
    cluster_rig_for_ms(r, 6000);
}
