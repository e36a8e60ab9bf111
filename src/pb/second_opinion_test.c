#include "gen/pb/auth.pb-c.h"
#include "gen/pb/election.pb-c.h"
#include "gen/pb/etcdserver.pb-c.h"
#include "gen/pb/health.pb-c.h"
#include "gen/pb/kv.pb-c.h"
#include "gen/pb/lease.pb-c.h"
#include "gen/pb/lock.pb-c.h"
#include "gen/pb/membership.pb-c.h"
#include "gen/pb/raft_internal.pb-c.h"
#include "gen/pb/rpc.pb-c.h"
#include "gen/pb/snap.pb-c.h"
#include "gen/pb/wal.pb-c.h"
#include "harness/test.h"
#include "pb/codec.h"
#include "pb/opinion_rig_test.h"

static const ProtobufCMessageDescriptor *const generated[] = {
    &authpb__user_add_options__descriptor,
    &authpb__user__descriptor,
    &authpb__permission__descriptor,
    &authpb__role__descriptor,
    &v3electionpb__campaign_request__descriptor,
    &v3electionpb__campaign_response__descriptor,
    &v3electionpb__leader_key__descriptor,
    &v3electionpb__leader_request__descriptor,
    &v3electionpb__leader_response__descriptor,
    &v3electionpb__resign_request__descriptor,
    &v3electionpb__resign_response__descriptor,
    &v3electionpb__proclaim_request__descriptor,
    &v3electionpb__proclaim_response__descriptor,
    &etcdserverpb__metadata__descriptor,
    &etcdserverpb__request__descriptor,
    &grpc__health__v1__health_check_request__descriptor,
    &grpc__health__v1__health_check_response__descriptor,
    &grpc__health__v1__health_list_request__descriptor,
    &grpc__health__v1__health_list_response__descriptor,
    &grpc__health__v1__health_list_response__statuses_entry__descriptor,
    &mvccpb__key_value__descriptor,
    &mvccpb__event__descriptor,
    &leasepb__lease__descriptor,
    &leasepb__lease_internal_request__descriptor,
    &leasepb__lease_internal_response__descriptor,
    &v3lockpb__lock_request__descriptor,
    &v3lockpb__lock_response__descriptor,
    &v3lockpb__unlock_request__descriptor,
    &v3lockpb__unlock_response__descriptor,
    &membershippb__raft_attributes__descriptor,
    &membershippb__attributes__descriptor,
    &membershippb__member__descriptor,
    &membershippb__cluster_version_set_request__descriptor,
    &membershippb__cluster_member_attr_set_request__descriptor,
    &membershippb__downgrade_info_set_request__descriptor,
    &etcdserverpb__request_header__descriptor,
    &etcdserverpb__internal_raft_request__descriptor,
    &etcdserverpb__empty_response__descriptor,
    &etcdserverpb__internal_authenticate_request__descriptor,
    &etcdserverpb__response_header__descriptor,
    &etcdserverpb__range_request__descriptor,
    &etcdserverpb__range_response__descriptor,
    &etcdserverpb__put_request__descriptor,
    &etcdserverpb__put_response__descriptor,
    &etcdserverpb__delete_range_request__descriptor,
    &etcdserverpb__delete_range_response__descriptor,
    &etcdserverpb__request_op__descriptor,
    &etcdserverpb__response_op__descriptor,
    &etcdserverpb__compare__descriptor,
    &etcdserverpb__txn_request__descriptor,
    &etcdserverpb__txn_response__descriptor,
    &etcdserverpb__compaction_request__descriptor,
    &etcdserverpb__compaction_response__descriptor,
    &etcdserverpb__hash_request__descriptor,
    &etcdserverpb__hash_kvrequest__descriptor,
    &etcdserverpb__hash_kvresponse__descriptor,
    &etcdserverpb__hash_response__descriptor,
    &etcdserverpb__snapshot_request__descriptor,
    &etcdserverpb__snapshot_response__descriptor,
    &etcdserverpb__watch_request__descriptor,
    &etcdserverpb__watch_create_request__descriptor,
    &etcdserverpb__watch_cancel_request__descriptor,
    &etcdserverpb__watch_progress_request__descriptor,
    &etcdserverpb__watch_response__descriptor,
    &etcdserverpb__lease_grant_request__descriptor,
    &etcdserverpb__lease_grant_response__descriptor,
    &etcdserverpb__lease_revoke_request__descriptor,
    &etcdserverpb__lease_revoke_response__descriptor,
    &etcdserverpb__lease_checkpoint__descriptor,
    &etcdserverpb__lease_checkpoint_request__descriptor,
    &etcdserverpb__lease_checkpoint_response__descriptor,
    &etcdserverpb__lease_keep_alive_request__descriptor,
    &etcdserverpb__lease_keep_alive_response__descriptor,
    &etcdserverpb__lease_time_to_live_request__descriptor,
    &etcdserverpb__lease_time_to_live_response__descriptor,
    &etcdserverpb__lease_leases_request__descriptor,
    &etcdserverpb__lease_status__descriptor,
    &etcdserverpb__lease_leases_response__descriptor,
    &etcdserverpb__member__descriptor,
    &etcdserverpb__member_add_request__descriptor,
    &etcdserverpb__member_add_response__descriptor,
    &etcdserverpb__member_remove_request__descriptor,
    &etcdserverpb__member_remove_response__descriptor,
    &etcdserverpb__member_update_request__descriptor,
    &etcdserverpb__member_update_response__descriptor,
    &etcdserverpb__member_list_request__descriptor,
    &etcdserverpb__member_list_response__descriptor,
    &etcdserverpb__member_promote_request__descriptor,
    &etcdserverpb__member_promote_response__descriptor,
    &etcdserverpb__defragment_request__descriptor,
    &etcdserverpb__defragment_response__descriptor,
    &etcdserverpb__move_leader_request__descriptor,
    &etcdserverpb__move_leader_response__descriptor,
    &etcdserverpb__alarm_request__descriptor,
    &etcdserverpb__alarm_member__descriptor,
    &etcdserverpb__alarm_response__descriptor,
    &etcdserverpb__downgrade_request__descriptor,
    &etcdserverpb__downgrade_response__descriptor,
    &etcdserverpb__downgrade_version_test_request__descriptor,
    &etcdserverpb__status_request__descriptor,
    &etcdserverpb__status_response__descriptor,
    &etcdserverpb__downgrade_info__descriptor,
    &etcdserverpb__auth_enable_request__descriptor,
    &etcdserverpb__auth_disable_request__descriptor,
    &etcdserverpb__auth_status_request__descriptor,
    &etcdserverpb__authenticate_request__descriptor,
    &etcdserverpb__auth_user_add_request__descriptor,
    &etcdserverpb__auth_user_get_request__descriptor,
    &etcdserverpb__auth_user_delete_request__descriptor,
    &etcdserverpb__auth_user_change_password_request__descriptor,
    &etcdserverpb__auth_user_grant_role_request__descriptor,
    &etcdserverpb__auth_user_revoke_role_request__descriptor,
    &etcdserverpb__auth_role_add_request__descriptor,
    &etcdserverpb__auth_role_get_request__descriptor,
    &etcdserverpb__auth_user_list_request__descriptor,
    &etcdserverpb__auth_role_list_request__descriptor,
    &etcdserverpb__auth_role_delete_request__descriptor,
    &etcdserverpb__auth_role_grant_permission_request__descriptor,
    &etcdserverpb__auth_role_revoke_permission_request__descriptor,
    &etcdserverpb__auth_enable_response__descriptor,
    &etcdserverpb__auth_disable_response__descriptor,
    &etcdserverpb__auth_status_response__descriptor,
    &etcdserverpb__authenticate_response__descriptor,
    &etcdserverpb__auth_user_add_response__descriptor,
    &etcdserverpb__auth_user_get_response__descriptor,
    &etcdserverpb__auth_user_delete_response__descriptor,
    &etcdserverpb__auth_user_change_password_response__descriptor,
    &etcdserverpb__auth_user_grant_role_response__descriptor,
    &etcdserverpb__auth_user_revoke_role_response__descriptor,
    &etcdserverpb__auth_role_add_response__descriptor,
    &etcdserverpb__auth_role_get_response__descriptor,
    &etcdserverpb__auth_role_list_response__descriptor,
    &etcdserverpb__auth_user_list_response__descriptor,
    &etcdserverpb__auth_role_delete_response__descriptor,
    &etcdserverpb__auth_role_grant_permission_response__descriptor,
    &etcdserverpb__auth_role_revoke_permission_response__descriptor,
    &etcdserverpb__range_stream_response__descriptor,
    &snappb__snapshot__descriptor,
    &walpb__record__descriptor};

static const struct opinion opinion = {pb_schemas, generated, ARRAY_LEN(generated)};

TEST(the_tables_say_what_the_proto_files_say)
{
    CHECK_EQ(pb_schema_count, ARRAY_LEN(generated));
    opinion_check_tables(&opinion);
}

TEST(fields_overlap_in_memory_only_within_a_oneof)
{
    opinion_check_places(&opinion);
}

TEST(random_messages_are_the_same_to_all_three_codecs)
{
    opinion_check_random(&opinion);
}

TEST(damaged_messages_are_the_same_by_hand_and_by_table)
{
    opinion_check_damaged(&opinion);
}

/* The entry of a map stands only inside the message with the map. */
TEST(messages_encoded_by_another_implementation_are_read_and_written_alike)
{
    CHECK(vectors_check(pb_schemas, pb_schema_count, &pb_health_list_entry_schema) > 600);
}

/* The encoder looks at such a message word by word, without asking the rows. */
TEST(a_message_of_words_has_one_for_each_row_in_order)
{
    for (size_t i = 0; i < pb_schema_count; i++) {
        const struct pb_schema *s = pb_schemas[i];
        for (size_t j = 0; s->of_words && j < s->field_count; j++) {
            const struct pb_field *f = &s->fields[j];
            CHECK_EQ(f->offset, j * sizeof(uint64_t));
            CHECK_EQ(f->place, PB_SINGLE);
            CHECK(f->kind == PB_MESSAGE || f->kind == PB_INT64 || f->kind == PB_UINT64);
        }
    }
}
