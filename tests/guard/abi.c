/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sizes and offsets of every public struct, frozen: a line that must change here is a new
 * soversion, except that a growable struct (its first member is size) may gain fields at its end.
 *
 * Prints the table, which other languages' mirrors of these structs are compared with.
 */
#include <nvmfr/cmd.h>
#include <nvmfr/nvmfr.h>
#include <nvmfr/soft.h>

#include <stdio.h>

/* clang-format off */
#define TABLE(SIZE, FIELD)									\
	SIZE(nvmfr_host_opts, 56)								\
	FIELD(nvmfr_host_opts, size, 0)								\
	FIELD(nvmfr_host_opts, hostnqn, 8)							\
	FIELD(nvmfr_host_opts, hostid, 16)							\
	FIELD(nvmfr_host_opts, flags, 32)							\
	FIELD(nvmfr_host_opts, log_level, 36)							\
	FIELD(nvmfr_host_opts, log_fn, 40)							\
	FIELD(nvmfr_host_opts, log_arg, 48)							\
												\
	SIZE(nvmfr_ctrl_opts, 80)								\
	FIELD(nvmfr_ctrl_opts, size, 0)								\
	FIELD(nvmfr_ctrl_opts, uri, 8)								\
	FIELD(nvmfr_ctrl_opts, traddr, 16)							\
	FIELD(nvmfr_ctrl_opts, trsvcid, 24)							\
	FIELD(nvmfr_ctrl_opts, subnqn, 32)							\
	FIELD(nvmfr_ctrl_opts, host_traddr, 40)							\
	FIELD(nvmfr_ctrl_opts, kato_ms, 48)							\
	FIELD(nvmfr_ctrl_opts, connect_timeout_ms, 52)						\
	FIELD(nvmfr_ctrl_opts, admin_timeout_ms, 56)						\
	FIELD(nvmfr_ctrl_opts, num_io_queues, 60)						\
	FIELD(nvmfr_ctrl_opts, admin_depth, 62)							\
	FIELD(nvmfr_ctrl_opts, tos, 64)								\
	FIELD(nvmfr_ctrl_opts, ack_timeout, 65)							\
	FIELD(nvmfr_ctrl_opts, retry_count, 66)							\
	FIELD(nvmfr_ctrl_opts, rnr_retry_count, 67)						\
	FIELD(nvmfr_ctrl_opts, ctrl_loss_timeout_ms, 68)					\
	FIELD(nvmfr_ctrl_opts, reconnect_delay_ms, 72)						\
	FIELD(nvmfr_ctrl_opts, fast_io_fail_ms, 76)						\
												\
	SIZE(nvmfr_ctrl_info, 408)								\
	FIELD(nvmfr_ctrl_info, size, 0)								\
	FIELD(nvmfr_ctrl_info, cntlid, 8)							\
	FIELD(nvmfr_ctrl_info, num_io_queues, 10)						\
	FIELD(nvmfr_ctrl_info, max_queue_depth, 12)						\
	FIELD(nvmfr_ctrl_info, max_sgl_descriptors, 14)						\
	FIELD(nvmfr_ctrl_info, max_xfer_bytes, 16)						\
	FIELD(nvmfr_ctrl_info, max_icd_bytes, 20)						\
	FIELD(nvmfr_ctrl_info, ns_count, 24)							\
	FIELD(nvmfr_ctrl_info, kato_ms, 28)							\
	FIELD(nvmfr_ctrl_info, version, 32)							\
	FIELD(nvmfr_ctrl_info, vid, 36)								\
	FIELD(nvmfr_ctrl_info, oncs, 38)							\
	FIELD(nvmfr_ctrl_info, mdts, 40)							\
	FIELD(nvmfr_ctrl_info, reserved, 41)							\
	FIELD(nvmfr_ctrl_info, serial, 44)							\
	FIELD(nvmfr_ctrl_info, model, 65)							\
	FIELD(nvmfr_ctrl_info, firmware, 106)							\
	FIELD(nvmfr_ctrl_info, device, 115)							\
	FIELD(nvmfr_ctrl_info, subnqn, 180)							\
	FIELD(nvmfr_ctrl_info, numa_node, 404)							\
												\
	SIZE(nvmfr_ns_info, 80)									\
	FIELD(nvmfr_ns_info, size, 0)								\
	FIELD(nvmfr_ns_info, capacity_blocks, 8)						\
	FIELD(nvmfr_ns_info, nsid, 16)								\
	FIELD(nvmfr_ns_info, block_bytes, 20)							\
	FIELD(nvmfr_ns_info, metadata_bytes, 24)						\
	FIELD(nvmfr_ns_info, read_only, 28)							\
	FIELD(nvmfr_ns_info, ana_state, 29)							\
	FIELD(nvmfr_ns_info, reserved, 30)							\
	FIELD(nvmfr_ns_info, nguid, 32)								\
	FIELD(nvmfr_ns_info, uuid, 48)								\
	FIELD(nvmfr_ns_info, eui64, 64)								\
	FIELD(nvmfr_ns_info, ana_group, 72)							\
	FIELD(nvmfr_ns_info, reserved1, 76)							\
												\
	SIZE(nvmfr_qpair_opts, 40)								\
	FIELD(nvmfr_qpair_opts, size, 0)							\
	FIELD(nvmfr_qpair_opts, depth, 8)							\
	FIELD(nvmfr_qpair_opts, max_descriptors, 10)						\
	FIELD(nvmfr_qpair_opts, io_timeout_ms, 12)						\
	FIELD(nvmfr_qpair_opts, qpair_data, 16)							\
	FIELD(nvmfr_qpair_opts, flags, 24)							\
	FIELD(nvmfr_qpair_opts, retry, 28)							\
	FIELD(nvmfr_qpair_opts, group, 32)							\
												\
	SIZE(nvmfr_group_opts, 16)								\
	FIELD(nvmfr_group_opts, size, 0)							\
	FIELD(nvmfr_group_opts, max_qpairs, 8)							\
	FIELD(nvmfr_group_opts, flags, 12)							\
												\
	SIZE(nvmfr_qpair_info, 32)								\
	FIELD(nvmfr_qpair_info, size, 0)							\
	FIELD(nvmfr_qpair_info, qid, 8)								\
	FIELD(nvmfr_qpair_info, depth, 10)							\
	FIELD(nvmfr_qpair_info, state, 12)							\
	FIELD(nvmfr_qpair_info, in_flight, 14)							\
	FIELD(nvmfr_qpair_info, commands, 16)							\
	FIELD(nvmfr_qpair_info, bounced_bytes, 24)						\
												\
	SIZE(nvmfr_iov, 24)									\
	FIELD(nvmfr_iov, buf, 0)								\
	FIELD(nvmfr_iov, offset_bytes, 8)							\
	FIELD(nvmfr_iov, len_bytes, 16)								\
												\
	SIZE(nvmfr_io, 64)									\
	FIELD(nvmfr_io, op, 0)									\
	FIELD(nvmfr_io, reserved0, 1)								\
	FIELD(nvmfr_io, flags, 2)								\
	FIELD(nvmfr_io, nsid, 4)								\
	FIELD(nvmfr_io, lba, 8)									\
	FIELD(nvmfr_io, nblocks, 16)								\
	FIELD(nvmfr_io, buf, 24)								\
	FIELD(nvmfr_io, iov, 24)								\
	FIELD(nvmfr_io, offset_bytes, 32)							\
	FIELD(nvmfr_io, niov, 32)								\
	FIELD(nvmfr_io, user_data, 40)								\
	FIELD(nvmfr_io, reserved1, 48)								\
												\
	SIZE(nvmfr_completion, 32)								\
	FIELD(nvmfr_completion, user_data, 0)							\
	FIELD(nvmfr_completion, qpair_data, 8)							\
	FIELD(nvmfr_completion, result, 16)							\
	FIELD(nvmfr_completion, status, 20)							\
	FIELD(nvmfr_completion, flags, 22)							\
	FIELD(nvmfr_completion, cqe_result, 24)							\
												\
	SIZE(nvmfr_event, 32)									\
	FIELD(nvmfr_event, ctrl, 0)								\
	FIELD(nvmfr_event, type, 8)								\
	FIELD(nvmfr_event, nsid, 12)								\
	FIELD(nvmfr_event, value, 16)								\
	FIELD(nvmfr_event, result, 24)								\
	FIELD(nvmfr_event, aer_type, 28)							\
	FIELD(nvmfr_event, aer_info, 29)							\
	FIELD(nvmfr_event, log_page, 30)							\
	FIELD(nvmfr_event, reserved, 31)							\
												\
	SIZE(nvmfr_discovery_record, 1080)							\
	FIELD(nvmfr_discovery_record, size, 0)							\
	FIELD(nvmfr_discovery_record, trtype, 8)						\
	FIELD(nvmfr_discovery_record, adrfam, 9)						\
	FIELD(nvmfr_discovery_record, subtype, 10)						\
	FIELD(nvmfr_discovery_record, treq, 11)							\
	FIELD(nvmfr_discovery_record, portid, 12)						\
	FIELD(nvmfr_discovery_record, cntlid, 14)						\
	FIELD(nvmfr_discovery_record, asqsz, 16)						\
	FIELD(nvmfr_discovery_record, eflags, 18)						\
	FIELD(nvmfr_discovery_record, log, 20)							\
	FIELD(nvmfr_discovery_record, traddr, 24)						\
	FIELD(nvmfr_discovery_record, trsvcid, 281)						\
	FIELD(nvmfr_discovery_record, subnqn, 314)						\
	FIELD(nvmfr_discovery_record, uri, 538)							\
												\
	SIZE(nvmfr_discovery_info, 48)								\
	FIELD(nvmfr_discovery_info, size, 0)							\
	FIELD(nvmfr_discovery_info, generation, 8)						\
	FIELD(nvmfr_discovery_info, left_out, 16)						\
	FIELD(nvmfr_discovery_info, records, 24)						\
	FIELD(nvmfr_discovery_info, logs, 28)							\
	FIELD(nvmfr_discovery_info, skipped, 32)						\
	FIELD(nvmfr_discovery_info, unreached, 36)						\
	FIELD(nvmfr_discovery_info, unfollowed, 40)						\
												\
	SIZE(nvmfr_qpair_stats, 80)								\
	FIELD(nvmfr_qpair_stats, size, 0)							\
	FIELD(nvmfr_qpair_stats, commands, 8)							\
	FIELD(nvmfr_qpair_stats, refused, 16)							\
	FIELD(nvmfr_qpair_stats, aborted, 24)							\
	FIELD(nvmfr_qpair_stats, timed_out, 32)							\
	FIELD(nvmfr_qpair_stats, reads, 40)							\
	FIELD(nvmfr_qpair_stats, writes, 48)							\
	FIELD(nvmfr_qpair_stats, others, 56)							\
	FIELD(nvmfr_qpair_stats, read_bytes, 64)						\
	FIELD(nvmfr_qpair_stats, write_bytes, 72)						\
												\
	SIZE(nvmfr_latency, 5032)								\
	FIELD(nvmfr_latency, size, 0)								\
	FIELD(nvmfr_latency, count, 8)								\
	FIELD(nvmfr_latency, sum_ns, 16)							\
	FIELD(nvmfr_latency, min_ns, 24)							\
	FIELD(nvmfr_latency, max_ns, 32)							\
	FIELD(nvmfr_latency, buckets, 40)							\
												\
	SIZE(nvmfr_ctrl_stats, 64)								\
	FIELD(nvmfr_ctrl_stats, size, 0)							\
	FIELD(nvmfr_ctrl_stats, admin_commands, 8)						\
	FIELD(nvmfr_ctrl_stats, keep_alives, 16)						\
	FIELD(nvmfr_ctrl_stats, aer_events, 24)							\
	FIELD(nvmfr_ctrl_stats, aborts, 32)							\
	FIELD(nvmfr_ctrl_stats, losses, 40)							\
	FIELD(nvmfr_ctrl_stats, attempts, 48)							\
	FIELD(nvmfr_ctrl_stats, recoveries, 56)							\
												\
	SIZE(nvmfr_loss, 296)									\
	FIELD(nvmfr_loss, size, 0)								\
	FIELD(nvmfr_loss, ago_ms, 8)								\
	FIELD(nvmfr_loss, duration_ms, 16)							\
	FIELD(nvmfr_loss, attempts, 24)								\
	FIELD(nvmfr_loss, state, 28)								\
	FIELD(nvmfr_loss, err, 32)								\
	FIELD(nvmfr_loss, reserved, 36)								\
	FIELD(nvmfr_loss, cause, 40)								\
												\
	SIZE(nvmfr_cmd, 64)									\
	FIELD(nvmfr_cmd, opcode, 0)								\
	FIELD(nvmfr_cmd, reserved0, 1)								\
	FIELD(nvmfr_cmd, nsid, 4)								\
	FIELD(nvmfr_cmd, cdw2, 8)								\
	FIELD(nvmfr_cmd, cdw3, 12)								\
	FIELD(nvmfr_cmd, cdw10, 16)								\
	FIELD(nvmfr_cmd, cdw11, 20)								\
	FIELD(nvmfr_cmd, cdw12, 24)								\
	FIELD(nvmfr_cmd, cdw13, 28)								\
	FIELD(nvmfr_cmd, cdw14, 32)								\
	FIELD(nvmfr_cmd, cdw15, 36)								\
	FIELD(nvmfr_cmd, timeout_ms, 40)							\
	FIELD(nvmfr_cmd, reserved1, 44)								\
	FIELD(nvmfr_cmd, reserved2, 48)								\
												\
	SIZE(nvmfr_reserve, 32)										\
	FIELD(nvmfr_reserve, nsid, 0)									\
	FIELD(nvmfr_reserve, action, 4)									\
	FIELD(nvmfr_reserve, type, 5)									\
	FIELD(nvmfr_reserve, flags, 6)									\
	FIELD(nvmfr_reserve, key, 8)									\
	FIELD(nvmfr_reserve, other_key, 16)								\
	FIELD(nvmfr_reserve, reserved, 24)								\
	SIZE(nvmfr_reservation, 8)									\
	FIELD(nvmfr_reservation, generation, 0)								\
	FIELD(nvmfr_reservation, registrants, 4)							\
	FIELD(nvmfr_reservation, type, 6)								\
	FIELD(nvmfr_reservation, persists, 7)								\
	SIZE(nvmfr_registrant, 32)									\
	FIELD(nvmfr_registrant, key, 0)									\
	FIELD(nvmfr_registrant, hostid, 8)								\
	FIELD(nvmfr_registrant, cntlid, 24)								\
	FIELD(nvmfr_registrant, holds, 26)								\
	FIELD(nvmfr_registrant, reserved, 27)								\
												\
	SIZE(nvmfr_range, 16)									\
	FIELD(nvmfr_range, lba, 0)								\
	FIELD(nvmfr_range, nblocks, 8)								\
												\
	SIZE(nvmfr_smart, 216)									\
	FIELD(nvmfr_smart, size, 0)								\
	FIELD(nvmfr_smart, critical_warning, 8)							\
	FIELD(nvmfr_smart, spare_percent, 9)							\
	FIELD(nvmfr_smart, spare_threshold_percent, 10)						\
	FIELD(nvmfr_smart, used_percent, 11)							\
	FIELD(nvmfr_smart, endurance_warning, 12)						\
	FIELD(nvmfr_smart, reserved, 13)							\
	FIELD(nvmfr_smart, temperature_kelvin, 14)						\
	FIELD(nvmfr_smart, sensor_kelvin, 16)							\
	FIELD(nvmfr_smart, data_units_read, 32)							\
	FIELD(nvmfr_smart, data_units_written, 48)						\
	FIELD(nvmfr_smart, host_reads, 64)							\
	FIELD(nvmfr_smart, host_writes, 80)							\
	FIELD(nvmfr_smart, busy_minutes, 96)							\
	FIELD(nvmfr_smart, power_cycles, 112)							\
	FIELD(nvmfr_smart, power_on_hours, 128)							\
	FIELD(nvmfr_smart, unsafe_shutdowns, 144)						\
	FIELD(nvmfr_smart, media_errors, 160)							\
	FIELD(nvmfr_smart, error_log_entries, 176)						\
	FIELD(nvmfr_smart, warning_minutes, 192)						\
	FIELD(nvmfr_smart, critical_minutes, 196)						\
	FIELD(nvmfr_smart, thermal_transitions, 200)						\
	FIELD(nvmfr_smart, thermal_seconds, 208)						\
												\
	SIZE(nvmfr_mpath_opts, 24)								\
	FIELD(nvmfr_mpath_opts, size, 0)							\
	FIELD(nvmfr_mpath_opts, policy, 8)							\
	FIELD(nvmfr_mpath_opts, retry, 12)							\
	FIELD(nvmfr_mpath_opts, no_path_timeout_ms, 16)						\
	FIELD(nvmfr_mpath_opts, flags, 20)							\
												\
	SIZE(nvmfr_mqpair_opts, 24)								\
	FIELD(nvmfr_mqpair_opts, size, 0)							\
	FIELD(nvmfr_mqpair_opts, depth, 8)							\
	FIELD(nvmfr_mqpair_opts, max_descriptors, 10)						\
	FIELD(nvmfr_mqpair_opts, io_timeout_ms, 12)						\
	FIELD(nvmfr_mqpair_opts, qpair_data, 16)						\
												\
	SIZE(nvmfr_mqpair_info, 32)								\
	FIELD(nvmfr_mqpair_info, size, 0)							\
	FIELD(nvmfr_mqpair_info, in_flight, 8)							\
	FIELD(nvmfr_mqpair_info, waiting, 12)							\
	FIELD(nvmfr_mqpair_info, reissued, 16)							\
	FIELD(nvmfr_mqpair_info, paths, 24)							\
	FIELD(nvmfr_mqpair_info, reserved, 28)							\
												\
	SIZE(nvmfr_mqpair_path, 80)								\
	FIELD(nvmfr_mqpair_path, size, 0)							\
	FIELD(nvmfr_mqpair_path, ctrl, 8)							\
	FIELD(nvmfr_mqpair_path, ios, 16)							\
	FIELD(nvmfr_mqpair_path, bytes_in_flight, 24)						\
	FIELD(nvmfr_mqpair_path, in_flight, 32)							\
	FIELD(nvmfr_mqpair_path, state, 36)							\
	FIELD(nvmfr_mqpair_path, bytes, 40)							\
	FIELD(nvmfr_mqpair_path, refused, 48)							\
	FIELD(nvmfr_mqpair_path, aborted, 56)							\
	FIELD(nvmfr_mqpair_path, timed_out, 64)							\
	FIELD(nvmfr_mqpair_path, reissued, 72)							\
												\
	SIZE(nvmfr_soft_opts, 80)								\
	FIELD(nvmfr_soft_opts, size, 0)								\
	FIELD(nvmfr_soft_opts, subnqn, 8)							\
	FIELD(nvmfr_soft_opts, flags, 16)							\
	FIELD(nvmfr_soft_opts, latency_us, 20)							\
	FIELD(nvmfr_soft_opts, sgls, 24)							\
	FIELD(nvmfr_soft_opts, ioccsz, 28)							\
	FIELD(nvmfr_soft_opts, iorcsz, 32)							\
	FIELD(nvmfr_soft_opts, nn, 36)								\
	FIELD(nvmfr_soft_opts, kato_min_ms, 40)							\
	FIELD(nvmfr_soft_opts, queue_entries, 44)						\
	FIELD(nvmfr_soft_opts, num_io_queues, 46)						\
	FIELD(nvmfr_soft_opts, maxcmd, 48)							\
	FIELD(nvmfr_soft_opts, icdoff, 50)							\
	FIELD(nvmfr_soft_opts, oncs, 52)							\
	FIELD(nvmfr_soft_opts, kas, 54)								\
	FIELD(nvmfr_soft_opts, mdts, 56)							\
	FIELD(nvmfr_soft_opts, mpsmin, 57)							\
	FIELD(nvmfr_soft_opts, msdbd, 58)							\
	FIELD(nvmfr_soft_opts, ready_timeout, 59)						\
	FIELD(nvmfr_soft_opts, ready_after_us, 60)						\
	FIELD(nvmfr_soft_opts, oaes, 64)							\
	FIELD(nvmfr_soft_opts, ana_groups, 68)							\
	FIELD(nvmfr_soft_opts, anatt, 70)							\
	FIELD(nvmfr_soft_opts, reserved, 71)							\
												\
	SIZE(nvmfr_soft_ns_opts, 40)								\
	FIELD(nvmfr_soft_ns_opts, size, 0)							\
	FIELD(nvmfr_soft_ns_opts, path, 8)							\
	FIELD(nvmfr_soft_ns_opts, size_bytes, 16)						\
	FIELD(nvmfr_soft_ns_opts, nsid, 24)							\
	FIELD(nvmfr_soft_ns_opts, block_bytes, 28)						\
	FIELD(nvmfr_soft_ns_opts, flags, 32)							\
	FIELD(nvmfr_soft_ns_opts, ana_group, 36)						\
												\
	SIZE(nvmfr_soft_fault, 40)								\
	FIELD(nvmfr_soft_fault, size, 0)							\
	FIELD(nvmfr_soft_fault, kind, 8)							\
	FIELD(nvmfr_soft_fault, qid, 12)							\
	FIELD(nvmfr_soft_fault, opcode, 16)							\
	FIELD(nvmfr_soft_fault, detail, 20)							\
	FIELD(nvmfr_soft_fault, skip, 24)							\
	FIELD(nvmfr_soft_fault, count, 28)							\
	FIELD(nvmfr_soft_fault, value, 32)							\
												\
	SIZE(nvmfr_soft_counters, 88)								\
	FIELD(nvmfr_soft_counters, size, 0)							\
	FIELD(nvmfr_soft_counters, commands, 8)							\
	FIELD(nvmfr_soft_counters, reads, 16)							\
	FIELD(nvmfr_soft_counters, writes, 24)							\
	FIELD(nvmfr_soft_counters, in_capsule_writes, 32)					\
	FIELD(nvmfr_soft_counters, bytes_moved, 40)						\
	FIELD(nvmfr_soft_counters, violations, 48)						\
	FIELD(nvmfr_soft_counters, connections, 56)						\
	FIELD(nvmfr_soft_counters, open_connections, 64)					\
	FIELD(nvmfr_soft_counters, max_outstanding, 72)						\
	FIELD(nvmfr_soft_counters, keep_alives, 80)
/* clang-format on */

#define ASSERT_SIZE(Struct, Bytes) _Static_assert(sizeof(struct Struct) == (Bytes), #Struct);
#define ASSERT_FIELD(Struct, Field, Offset) \
	_Static_assert(offsetof(struct Struct, Field) == (Offset), #Struct "." #Field);
#define PRINT_SIZE(Struct, Bytes) printf("%s %d\n", #Struct, Bytes);
#define PRINT_FIELD(Struct, Field, Offset) printf("%s.%s %d\n", #Struct, #Field, Offset);

#if defined(__LP64__)
TABLE(ASSERT_SIZE, ASSERT_FIELD)
#endif

int main(void)
{
	TABLE(PRINT_SIZE, PRINT_FIELD)
	return 0;
}
