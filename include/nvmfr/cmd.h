/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file cmd.h
 * Commands beyond read and write: any admin or I/O command as the specifications have it, and the usual
 * admin ones with a function each. Conventions are those of nvmfr.h.
 */
#ifndef NVMFR_CMD_H
#define NVMFR_CMD_H

#include <nvmfr/nvmfr.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Most bytes of data of an admin command; the controller's MDTS may allow fewer. */
#define NVMFR_ADMIN_MAX_BYTES (UINT32_C(1) << 20)

/**
 * One command as it stands in a submission queue entry, 64 bytes. Values of the dwords are in host byte
 * order. CID, flags (PSDT) and data pointer are the library's.
 *
 * Bits 1:0 of the opcode tell which way its data goes (NVM Express Base Specification, Opcode, Data
 * Transfer): 0 none, 1 to the controller, 2 from it, 3 both.
 */
struct nvmfr_cmd {
	uint8_t opcode;        /**< as specified */
	uint8_t reserved0[3];  /**< zero */
	uint32_t nsid;         /**< namespace; 0xffffffff: all, where the command knows that */
	uint32_t cdw2;         /**< command dword 2 */
	uint32_t cdw3;         /**< command dword 3 */
	uint32_t cdw10;        /**< command dword 10 */
	uint32_t cdw11;        /**< command dword 11 */
	uint32_t cdw12;        /**< command dword 12 */
	uint32_t cdw13;        /**< command dword 13 */
	uint32_t cdw14;        /**< command dword 14 */
	uint32_t cdw15;        /**< command dword 15 */
	uint32_t timeout_ms;   /**< of an admin command; 0: nvmfr_ctrl_opts.admin_timeout_ms. On a queue pair: zero */
	uint32_t reserved1;    /**< zero */
	uint64_t reserved2[2]; /**< zero */
};

/**
 * Sends an admin command and waits for its answer. Several threads may at once: as many commands as the
 * admin queue has room for are in flight (admin_depth less the library's own), the others wait their turn
 * within their time. With NVMFR_HOST_MANUAL it drives the host meanwhile.
 *
 * What would take from the library what it works with is refused with -EPERM: Fabrics commands, Keep Alive,
 * Asynchronous Event Request, Abort, creating and deleting queues, and Set Features of Number of Queues,
 * Asynchronous Event Configuration, Keep Alive Timer and Host Identifier.
 *
 * Data goes by way of memory of the library's, so `data` may be any. After a timeout the command is
 * still the controller's to do: its data ends in that memory, which is kept until the answer or the end of
 * the association, and `data` is the caller's again.
 *
 * @param ctrl    a live controller
 * @param cmd     read only, free again on return
 * @param data    `bytes` of it; NULL with 0. What the controller sends is there after 0 only
 * @param bytes   0, or a multiple of 4 up to NVMFR_ADMIN_MAX_BYTES and MDTS; as the command itself says it
 * @param result  receives CQE dwords 0 and 1, 0 without an answer; NULL: not wanted
 * @param status  receives the NVMe status as in nvmfr_completion.status, 0 without an answer; NULL: not wanted
 *
 * Threads: any.
 * Returns: 0; -EREMOTEIO the controller refused, status and the sentence say why; -ETIMEDOUT no answer, or no
 * room on the admin queue, within the time; -EINVAL or -ERANGE a bad argument, -EPERM not this command, -ENOSPC
 * admin_depth has no room for it, -ENOMEM: nothing was sent; -EAGAIN still connecting, or being
 * connected anew, at once: nvmfr_ctrl_wait(); -ENOTCONN lost, it was not sent; -ECONNABORTED lost while it was out,
 * outcome unknown, also where the association recovers; -EOWNERDEAD in a forked child.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_admin(struct nvmfr_ctrl *ctrl, const struct nvmfr_cmd *cmd, void *data,
					   size_t bytes, uint64_t *result, uint16_t *status);

/**
 * Reads an Identify page.
 *
 * @param ctrl   a live controller
 * @param cns    which page (CNS)
 * @param nsid   namespace, where the page has to do with one; else 0
 * @param cntid  controller, where the page has to do with one; else 0
 * @param csi    command set, where the page has to do with one; else 0 (NVM)
 * @param data   receives 4096 bytes as they came
 *
 * Threads: any.
 * Returns: as nvmfr_admin().
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_identify(struct nvmfr_ctrl *ctrl, uint8_t cns, uint32_t nsid, uint16_t cntid,
					      uint8_t csi, void *data);

/** Which value of a feature. Other than the current one: where the controller has ONCS bit 4. */
enum nvmfr_feature_select {
	NVMFR_FEATURE_CURRENT = 0,  /**< in force */
	NVMFR_FEATURE_DEFAULT = 1,  /**< the maker's */
	NVMFR_FEATURE_SAVED = 2,    /**< in force after a reset */
	NVMFR_FEATURE_SUPPORTED = 3 /**< its capabilities: bit 0 saveable, 1 per namespace, 2 changeable */
};

/**
 * Reads a feature.
 *
 * @param ctrl    a live controller
 * @param fid     which feature
 * @param select  enum nvmfr_feature_select
 * @param nsid    namespace, where the feature has to do with one; else 0
 * @param cdw11   command dword 11; mostly 0
 * @param data    receives `bytes` where the feature has data; else NULL
 * @param bytes   as the feature has it; else 0
 * @param value   receives CQE dword 0; NULL: not wanted
 *
 * Threads: any.
 * Returns: as nvmfr_admin(); -EOPNOTSUPP the controller cannot select.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_get_feature(struct nvmfr_ctrl *ctrl, uint8_t fid, uint32_t select,
						 uint32_t nsid, uint32_t cdw11, void *data, size_t bytes,
						 uint32_t *value);

/**
 * Sets a feature.
 *
 * @param ctrl   a live controller
 * @param fid    which feature; not one that nvmfr_admin() refuses
 * @param save   non-zero: also for the time after a reset, where the controller has ONCS bit 4
 * @param nsid   namespace, where the feature has to do with one; else 0
 * @param cdw11  the value
 * @param data   `bytes` where the feature has data; else NULL
 * @param bytes  as the feature has it; else 0
 * @param value  receives CQE dword 0; NULL: not wanted
 *
 * Threads: any.
 * Returns: as nvmfr_admin(); -EOPNOTSUPP the controller cannot save.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_set_feature(struct nvmfr_ctrl *ctrl, uint8_t fid, int save, uint32_t nsid,
						 uint32_t cdw11, void *data, size_t bytes, uint32_t *value);

/** Log pages (Get Log Page, LID). */
enum nvmfr_log_page {
	NVMFR_LOG_PAGE_ERROR = 0x01,      /**< error entries, 64 bytes each, the newest first */
	NVMFR_LOG_PAGE_SMART = 0x02,      /**< health, 512 bytes; nvmfr_read_smart() decodes it */
	NVMFR_LOG_PAGE_FIRMWARE = 0x03,   /**< firmware slots, 512 bytes */
	NVMFR_LOG_PAGE_CHANGED_NS = 0x04, /**< namespaces that changed since it was read, 4096 bytes; where OAES has it */
	NVMFR_LOG_PAGE_EFFECTS = 0x05,    /**< commands and what they do, 4096 bytes; where LPA has it */
	NVMFR_LOG_PAGE_ANA = 0x0c         /**< asymmetric namespace access; where CMIC has it */
};

/** Flags of nvmfr_get_log(). */
enum nvmfr_log_flags {
	NVMFR_LOG_RETAIN = 1 /**< an event that told of the page stays pending (RAE) */
};

/**
 * Reads a log page or a part of one. A long part is read in pieces of 4096 bytes, which may be of different
 * moments; so that is told, most pages have a generation number.
 *
 * The library reads the Changed Namespace List itself (NVMFR_EVENT_NS_...). Who reads it, too, takes what it
 * tells, so the library then looks at all namespaces.
 *
 * A controller without extended data (LPA bit 2) reads from the begin only, and 16 KiB at most.
 *
 * @param ctrl          a live controller
 * @param lid           which page: enum nvmfr_log_page, or another
 * @param nsid          namespace, where the page has to do with one; 0xffffffff: the controller's
 * @param flags         enum nvmfr_log_flags
 * @param offset_bytes  a multiple of 4
 * @param data          receives `bytes`
 * @param bytes         a multiple of 4, 4 or more
 *
 * Threads: any.
 * Returns: as nvmfr_admin(); -EOPNOTSUPP the controller does not have the page, or no part of one.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_get_log(struct nvmfr_ctrl *ctrl, uint8_t lid, uint32_t nsid, uint32_t flags,
					     uint64_t offset_bytes, void *data, size_t bytes);

/** A controller's health (SMART / Health Information log). Counts of 128 bits: low half, high half. */
struct nvmfr_smart {
	size_t size;                        /**< sizeof this struct, set by the caller */
	uint8_t critical_warning;           /**< bits: 0 spare, 1 temperature, 2 reliability, 3 read only, 4 backup, 5 PMR */
	uint8_t spare_percent;              /**< available spare */
	uint8_t spare_threshold_percent;    /**< below it: a warning */
	uint8_t used_percent;               /**< of its life, an estimate; 255: that or more */
	uint8_t endurance_warning;          /**< endurance group critical warning summary */
	uint8_t reserved;                   /**< zero */
	uint16_t temperature_kelvin;        /**< composite temperature */
	uint16_t sensor_kelvin[8];          /**< temperature sensors; 0: there is none */
	uint64_t data_units_read[2];        /**< 1000 blocks of 512 bytes each */
	uint64_t data_units_written[2];     /**< 1000 blocks of 512 bytes each */
	uint64_t host_reads[2];             /**< commands */
	uint64_t host_writes[2];            /**< commands */
	uint64_t busy_minutes[2];           /**< with commands outstanding */
	uint64_t power_cycles[2];           /**< so many */
	uint64_t power_on_hours[2];         /**< so many */
	uint64_t unsafe_shutdowns[2];       /**< without notification */
	uint64_t media_errors[2];           /**< unrecovered */
	uint64_t error_log_entries[2];      /**< over its life */
	uint32_t warning_minutes;           /**< above the warning temperature */
	uint32_t critical_minutes;          /**< above the critical temperature */
	uint32_t thermal_transitions[2];    /**< to thermal management 1 and 2 */
	uint32_t thermal_seconds[2];        /**< in thermal management 1 and 2 */
};

/**
 * Reads and decodes the health of a controller or, where it can (LPA bit 0), of a namespace.
 *
 * @param ctrl   a live controller
 * @param nsid   namespace; 0xffffffff: the controller's
 * @param smart  with size set; filled as far as it goes
 *
 * Threads: any.
 * Returns: as nvmfr_admin(); -EOPNOTSUPP not of a namespace.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_read_smart(struct nvmfr_ctrl *ctrl, uint32_t nsid, struct nvmfr_smart *smart);

/**
 * Submits any I/O command as it is given, for what nvmfr_submit() has no name for: also vendor specific ones.
 * Only its form is checked, not whether the controller knows it or its namespace is active and not write
 * protected: the controller answers. It completes like any I/O, with nvmfr_completion.cqe_result.
 *
 * Its data is named by one descriptor, so it must lie in one memory region: buffers above the device's limit
 * (1 GiB and more) have several, with an overlap of 1 MiB. None goes in the capsule.
 *
 * @param qp            the queue pair
 * @param cmd           read only, free again on return; timeout_ms is zero (io_timeout_ms holds)
 * @param buf           registered as the opcode's data needs it: bit 0 NVMFR_ACCESS_SOURCE, bit 1 NVMFR_ACCESS_TARGET;
 *                      NULL with 0 bytes
 * @param offset_bytes  any alignment
 * @param len_bytes     0, or up to nvmfr_ctrl_info.max_xfer_bytes; as the command itself says it
 * @param user_data     comes back in the completion
 *
 * Threads: the owner.
 * Returns: as nvmfr_read(); -EPERM a Fabrics command.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_submit_cmd(struct nvmfr_qpair *qp, const struct nvmfr_cmd *cmd,
						struct nvmfr_buffer *buf, uint64_t offset_bytes,
						uint64_t len_bytes, uint64_t user_data);

/** Blocks one behind the other. */
struct nvmfr_range {
	uint64_t lba;     /**< first logical block */
	uint64_t nblocks; /**< 1 or more */
};

/** Room in `list` that a range takes: nvmfr_deallocate(). */
#define NVMFR_DEALLOCATE_RANGE_BYTES 16
/** Room in `list` that a range takes: nvmfr_copy(). */
#define NVMFR_COPY_RANGE_BYTES 32

/**
 * Submits a deallocate (Dataset Management): these blocks are not needed any more. What they read as then is
 * in Identify Namespace, DLFEAT: mostly zeroes. The controller may do it, or not.
 *
 * @param qp                 the queue pair
 * @param nsid               namespace
 * @param ranges             read only, free again on return
 * @param n                  1 to 256, or fewer (DMRL); each up to 2^32 - 1 blocks or DMRSL, all together up to DMSL
 * @param list               receives the command's list: n times NVMFR_DEALLOCATE_RANGE_BYTES that must stay as they
 *                           are until the completion; registered with NVMFR_ACCESS_BOTH, not a dma-buf
 * @param list_offset_bytes  any alignment
 * @param user_data          comes back in the completion
 *
 * Threads: the owner.
 * Returns: as nvmfr_write(); -EOPNOTSUPP the controller has no Dataset Management; -EINVAL or -ERANGE also beyond a
 * limit of it, which the sentence names.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_deallocate(struct nvmfr_qpair *qp, uint32_t nsid,
						const struct nvmfr_range *ranges, unsigned int n,
						struct nvmfr_buffer *list, uint64_t list_offset_bytes,
						uint64_t user_data);

/**
 * Submits a copy: the ranges, one behind the other, to `lba` on, within one namespace and without data on
 * the wire. When it fails, nvmfr_completion.cqe_result counts the ranges that were copied before.
 *
 * @param qp                 the queue pair
 * @param nsid               namespace
 * @param lba                first block to write
 * @param ranges             to read; read only, free again on return
 * @param n                  1 to 256, or fewer (MSRC); each up to 65536 blocks or MSSRL, all together up to MCL
 * @param list               as in nvmfr_deallocate(), n times NVMFR_COPY_RANGE_BYTES
 * @param list_offset_bytes  any alignment
 * @param user_data          comes back in the completion
 *
 * Threads: the owner.
 * Returns: as nvmfr_deallocate(); -EOPNOTSUPP the controller has no Copy.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_copy(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba,
					  const struct nvmfr_range *ranges, unsigned int n, struct nvmfr_buffer *list,
					  uint64_t list_offset_bytes, uint64_t user_data);

/**
 * Submits a fused Compare and Write: the blocks are written if they are what the Compare names, and nobody else's
 * command comes in between. Two commands in order, and two completions. Where the blocks differ the Compare ends
 * with status Compare Failure (0285h), the Write with Failed Fused Command (0009h), and nothing was written.
 *
 * @param qp    the queue pair, of depth 2 or more
 * @param pair  a NVMFR_OP_COMPARE and then a NVMFR_OP_WRITE of the same namespace, lba and nblocks; each of one buffer
 *              (no NVMFR_IO_VEC) and one command's length at most, user_data its own. How many blocks are compared
 *              and written as one is in Identify Controller, ACWU. Read only, free again on return
 *
 * Threads: the owner.
 * Returns: 0 both are on their way; as nvmfr_write(), and neither is; -EAGAIN also where there is room for one only;
 * -EOPNOTSUPP the controller has no fused Compare and Write (FUSES), or no Compare.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_compare_and_write(struct nvmfr_qpair *qp, const struct nvmfr_io *pair);

/** What nvmfr_reserve() does. */
enum nvmfr_reserve_action {
	NVMFR_RESERVE_REGISTER = 0,     /**< this host becomes a registrant with other_key */
	NVMFR_RESERVE_UNREGISTER = 1,   /**< and is none any more; a reservation that it alone holds ends */
	NVMFR_RESERVE_REPLACE = 2,      /**< other_key instead of key */
	NVMFR_RESERVE_ACQUIRE = 3,      /**< takes the reservation, as a registrant */
	NVMFR_RESERVE_PREEMPT = 4,      /**< unregisters who has other_key, and takes the reservation if that was the holder's */
	NVMFR_RESERVE_PREEMPT_ABORT = 5, /**< the same, and aborts their commands */
	NVMFR_RESERVE_RELEASE = 6,      /**< ends the reservation of that type, as its holder */
	NVMFR_RESERVE_CLEAR = 7         /**< ends it and unregisters all */
};

/** Types of a reservation. */
enum nvmfr_reserve_type {
	NVMFR_RESERVE_WRITE_EXCLUSIVE = 1,             /**< the holder alone writes */
	NVMFR_RESERVE_EXCLUSIVE = 2,                   /**< the holder alone reads and writes */
	NVMFR_RESERVE_WRITE_EXCLUSIVE_REGISTRANTS = 3, /**< registrants write; one holds it */
	NVMFR_RESERVE_EXCLUSIVE_REGISTRANTS = 4,       /**< registrants read and write; one holds it */
	NVMFR_RESERVE_WRITE_EXCLUSIVE_ALL = 5,         /**< registrants write; all hold it */
	NVMFR_RESERVE_EXCLUSIVE_ALL = 6                /**< registrants read and write; all hold it */
};

/** Flags of nvmfr_reserve(). */
enum nvmfr_reserve_flags {
	NVMFR_RESERVE_IGNORE_KEY = 1, /**< key is not looked at (IEKEY) */
	NVMFR_RESERVE_PERSIST = 2,    /**< when registering: what there is outlives the target's loss of power (CPTPL) */
	NVMFR_RESERVE_NO_PERSIST = 4  /**< it does not */
};

/** A change of registrations or of the reservation of a namespace. */
struct nvmfr_reserve {
	uint32_t nsid;      /**< namespace */
	uint8_t action;     /**< enum nvmfr_reserve_action */
	uint8_t type;       /**< enum nvmfr_reserve_type, to acquire, preempt and release; else 0 */
	uint16_t flags;     /**< enum nvmfr_reserve_flags */
	uint64_t key;       /**< this host's, as registered */
	uint64_t other_key; /**< to register or replace: the new one; to preempt: the others' */
	uint64_t reserved;  /**< zero */
};

/** Room in `keys` that nvmfr_reserve() takes. */
#define NVMFR_RESERVE_KEY_BYTES 16

/**
 * Submits a reservation command (Register, Acquire or Release). Hosts are told apart by their host ID
 * (nvmfr_host_opts.hostid), not by controllers: all associations of a host are one registrant. What the
 * reservation does not allow, this or another's I/O, completes with status Reservation Conflict (0083h).
 *
 * @param qp                 the queue pair
 * @param what               read only, free again on return
 * @param keys               receives the command's keys: NVMFR_RESERVE_KEY_BYTES that must stay as they are until the
 *                           completion; registered with NVMFR_ACCESS_BOTH, not a dma-buf
 * @param keys_offset_bytes  any alignment
 * @param user_data          comes back in the completion
 *
 * Threads: the owner.
 * Returns: as nvmfr_write(); -EOPNOTSUPP the controller has no reservations (ONCS bit 5).
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_reserve(struct nvmfr_qpair *qp, const struct nvmfr_reserve *what,
					     struct nvmfr_buffer *keys, uint64_t keys_offset_bytes,
					     uint64_t user_data);

/**
 * Submits a Reservation Report, with host IDs of 128 bits: 64 bytes and 64 for each registrant, for
 * nvmfr_parse_reservations(). What does not fit is not sent.
 *
 * @param qp            the queue pair
 * @param nsid          namespace
 * @param buf           receives it
 * @param offset_bytes  any alignment
 * @param len_bytes     a multiple of 4, 64 or more
 * @param user_data     comes back in the completion
 *
 * Threads: the owner.
 * Returns: as nvmfr_read(); -EOPNOTSUPP the controller has no reservations (ONCS bit 5).
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_report_reservations(struct nvmfr_qpair *qp, uint32_t nsid,
							 struct nvmfr_buffer *buf, uint64_t offset_bytes,
							 uint64_t len_bytes, uint64_t user_data);

/** What a report says of the namespace. */
struct nvmfr_reservation {
	uint32_t generation;  /**< counts changes of registrations */
	uint16_t registrants; /**< that there are: a controller of a registered host counts each */
	uint8_t type;         /**< enum nvmfr_reserve_type; 0: there is no reservation */
	uint8_t persists;     /**< it outlives the target's loss of power */
};

/** A controller of a registered host. */
struct nvmfr_registrant {
	uint64_t key;        /**< its host's */
	uint8_t hostid[16];  /**< its host */
	uint16_t cntlid;     /**< FFFFh: none at the moment */
	uint8_t holds;       /**< its host holds the reservation */
	uint8_t reserved[5]; /**< zero */
};

/**
 * Decodes a report.
 *
 * @param page   as it came
 * @param bytes  of it, 64 or more
 * @param out    filled
 * @param list   receives at most max registrants; NULL with 0
 * @param max    so many
 *
 * Threads: any.
 * Returns: how many there are in list; -EINVAL.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_parse_reservations(const void *page, size_t bytes, struct nvmfr_reservation *out,
							struct nvmfr_registrant *list, unsigned int max);

#ifdef __cplusplus
}
#endif
#endif
