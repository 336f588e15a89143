/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file soft.h
 * The embedded target: an NVMe-oF controller in memory, reached through the same code as a NIC. For
 * tests of applications: no network, no device, any fault on demand, time under control.
 *
 * A target is named on its host and reached as `nvmf+soft://NAME`. Its checks (keys, bounds, access,
 * queue sizes, command limits) are as strict as a NIC's and a controller's.
 */
#ifndef NVMFR_SOFT_H
#define NVMFR_SOFT_H

#include <nvmfr/nvmfr.h>

#ifdef __cplusplus
extern "C" {
#endif

/** An embedded target. */
struct nvmfr_soft_target;

/** The subsystem NQN of a target that was given none. */
#define NVMFR_SOFT_SUBNQN "nqn.2026-12.io.github.nvmfr:soft"

/** Flags of nvmfr_soft_opts. */
enum nvmfr_soft_flags {
	NVMFR_SOFT_THREAD = 1,    /**< progress in a thread of its own instead of inside poll */
	NVMFR_SOFT_DENY_HOSTS = 2, /**< refuses every host (Connect Invalid Host) */
	NVMFR_SOFT_TBKAS = 4      /**< traffic counts as keep-alive (Identify Controller CTRATT bit 6) */
};

/** What a target says of itself. Values go out as they are, also odd ones. */
struct nvmfr_soft_opts {
	size_t size;            /**< sizeof this struct; set by init */
	const char *subnqn;     /**< NULL: NVMFR_SOFT_SUBNQN */
	uint32_t flags;         /**< enum nvmfr_soft_flags */
	uint32_t latency_us;    /**< a response is due so long after its command */
	uint32_t sgls;          /**< Identify Controller SGLS */
	uint32_t ioccsz;        /**< I/O command capsule, 16-byte units */
	uint32_t iorcsz;        /**< I/O response capsule, 16-byte units */
	uint32_t nn;            /**< Identify Controller NN */
	uint32_t kato_min_ms;   /**< 0, or a keep-alive timeout below it is refused */
	uint16_t queue_entries; /**< entries of an I/O queue, CAP.MQES + 1 */
	uint16_t num_io_queues; /**< granted at most */
	uint16_t maxcmd;        /**< Identify Controller MAXCMD */
	uint16_t icdoff;        /**< in-capsule data offset, 16-byte units */
	uint16_t oncs;          /**< Identify Controller ONCS */
	uint16_t kas;           /**< keep-alive granularity, 100 ms units */
	uint8_t mdts;           /**< Identify Controller MDTS */
	uint8_t mpsmin;         /**< CAP.MPSMIN */
	uint8_t msdbd;          /**< Identify Controller MSDBD */
	uint8_t ready_timeout;  /**< CAP.TO, 500 ms units */
	uint32_t ready_after_us; /**< CSTS.RDY comes so long after CC.EN */
	uint32_t oaes;          /**< Identify Controller OAES */
	uint16_t ana_groups;    /**< Identify Controller NANAGRPID, at most 8; 0: no ANA. OAES is another matter */
	uint8_t anatt;          /**< Identify Controller ANATT, seconds */
	uint8_t reserved[5];    /**< zero */
};

/**
 * Fills opts with defaults: in-capsule 8 KiB, MDTS 1 MiB, 16 descriptors, queues of 1024 entries, 64 queues;
 * ONCS with Compare, Dataset Management, Write Zeroes, reservations, Timestamp, Verify and Copy. Fused Compare and
 * Write goes with Compare.
 *
 * @param opts  to fill
 * @param size  sizeof *opts
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_soft_opts_init(struct nvmfr_soft_opts *opts, size_t size);

/**
 * Makes a target without namespaces.
 *
 * @param host  whose controllers may connect to it
 * @param name  1 to 63 of [A-Za-z0-9._-], as in `nvmf+soft://NAME`
 * @param opts  NULL: defaults
 * @param out   receives the target, NULL on failure
 *
 * Threads: any.
 * Returns: 0; -EINVAL; -E2BIG; -EEXIST the name is taken; -ENOMEM.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_soft_target_create(struct nvmfr_host *host, const char *name,
							const struct nvmfr_soft_opts *opts,
							struct nvmfr_soft_target **out);

/**
 * Ends a target: connections are dropped, commands in flight are never answered.
 *
 * @param target  the target, or NULL
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_soft_target_destroy(struct nvmfr_soft_target *target);

/** Flags of nvmfr_soft_ns_opts. */
enum nvmfr_soft_ns_flags {
	NVMFR_SOFT_NS_READ_ONLY = 1 /**< writes are refused */
};

/** A namespace of a target. */
struct nvmfr_soft_ns_opts {
	size_t size;          /**< sizeof this struct; set by init */
	const char *path;     /**< a file, mapped; NULL: RAM */
	uint64_t size_bytes;  /**< RAM: bytes, 0: 64 MiB; file: 0 its size, rounded up to whole blocks (the rest reads as zero) */
	uint32_t nsid;        /**< 0: the lowest free one */
	uint32_t block_bytes; /**< 512 or 4096 */
	uint32_t flags;       /**< enum nvmfr_soft_ns_flags */
	uint32_t ana_group;   /**< 1 to ana_groups of the target; 0: the first one. Not looked at without ANA */
};

/**
 * Fills opts with defaults: RAM, 64 MiB, 512-byte blocks.
 *
 * @param opts  to fill
 * @param size  sizeof *opts
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_soft_ns_opts_init(struct nvmfr_soft_ns_opts *opts, size_t size);

/**
 * Adds a namespace.
 *
 * @param target  the target
 * @param opts    NULL: defaults
 *
 * Threads: any.
 * Returns: its namespace ID; -EINVAL; -EEXIST; -ENOENT, -EACCES or another errno of the file; -ENOMEM.
 */
NVMFR_API int nvmfr_soft_ns_add(struct nvmfr_soft_target *target, const struct nvmfr_soft_ns_opts *opts);

/**
 * Removes a namespace; commands to it fail with Invalid Namespace from then on.
 *
 * @param target  the target
 * @param nsid    the namespace
 *
 * Threads: any.
 * Returns: 0; -ENOENT.
 */
NVMFR_API int nvmfr_soft_ns_remove(struct nvmfr_soft_target *target, uint32_t nsid);

/**
 * Gives a namespace of RAM another size: up to four times the one that it was made with. What is cut off is lost,
 * what is gained reads as zero.
 *
 * @param target      the target
 * @param nsid        the namespace
 * @param size_bytes  whole blocks, 1 or more
 *
 * Threads: any.
 * Returns: 0; -ENOENT; -EINVAL a size that cannot be, or a file; -ENOMEM.
 */
NVMFR_API int nvmfr_soft_ns_resize(struct nvmfr_soft_target *target, uint32_t nsid, uint64_t size_bytes);

struct nvmfr_reserve;

/**
 * Does what a reservation command of another host would (nvmfr_reserve() in cmd.h), so that a program can see how it
 * stands conflicts.
 *
 * @param target  the target
 * @param what    read only
 * @param hostid  the other host's, 16 bytes
 *
 * Threads: any.
 * Returns: the command's NVMe status, 0 where it was done; -EINVAL; -ENOENT no such namespace.
 */
NVMFR_API int nvmfr_soft_reserve(struct nvmfr_soft_target *target, const struct nvmfr_reserve *what,
				 const uint8_t *hostid);

/** Ports of a target, counted from 1: ways to it, each with ANA states of its own. */
#define NVMFR_SOFT_PORTS 8

/**
 * Shuts or opens a port of a target. What is shut drops its connections and is unreachable; all are open at first.
 *
 * @param target  the target
 * @param port    1 to NVMFR_SOFT_PORTS, as in `nvmf+soft://NAME?port=1`
 * @param up      0: shuts it
 *
 * Threads: any.
 * Returns: 0; -EINVAL.
 */
NVMFR_API int nvmfr_soft_port_set(struct nvmfr_soft_target *target, uint32_t port, uint32_t up);

/**
 * Sets the ANA state of a group by way of a port, and announces it to the port's controllers (those that enabled
 * the event, which needs its bit in oaes). In a state that is not accessible reads and writes are refused with that
 * state's status. All are NVMFR_ANA_OPTIMIZED at first.
 *
 * @param target  the target, made with ana_groups
 * @param port    1 to NVMFR_SOFT_PORTS, or NVMFR_SOFT_ANY: all
 * @param group   1 to ana_groups, or NVMFR_SOFT_ANY: all
 * @param state   enum nvmfr_ana_state; others go out as they are, 0 to 15
 *
 * Threads: any.
 * Returns: 0; -EINVAL.
 */
NVMFR_API int nvmfr_soft_ana_set(struct nvmfr_soft_target *target, uint32_t port, uint32_t group, uint32_t state);

/** Some asynchronous events for nvmfr_soft_notify(). */
enum nvmfr_soft_notice {
	NVMFR_SOFT_NOTICE_ERROR = 0x010000,     /**< error: invalid doorbell register, log page 01h */
	NVMFR_SOFT_NOTICE_HEALTH = 0x020101,    /**< health: temperature, log page 02h */
	NVMFR_SOFT_NOTICE_FIRMWARE = 0x030102,  /**< notice: firmware activation starting, log page 03h */
	NVMFR_SOFT_NOTICE_ANA = 0x0c0302,       /**< notice: ANA change, log page 0Ch */
	NVMFR_SOFT_NOTICE_DISCOVERY = 0x70f002, /**< notice: discovery log change, log page 70h; to discovery controllers */
	NVMFR_SOFT_NOTICE_VENDOR = 0xc00007     /**< vendor specific, log page C0h, which the target does not have */
};

/**
 * Sends an asynchronous event to all controllers that want it (notices: those that enabled them; what OAES does
 * not offer cannot be enabled). As with any controller it waits for an event request, and the same page is not
 * announced again before it was read. Also counts the ANA log and the discovery log on.
 *
 * @param target  the target
 * @param notice  dword 0 of the completion: type, information << 8, log page << 16; enum nvmfr_soft_notice has some
 *
 * Threads: any.
 * Returns: 0; -EINVAL.
 */
NVMFR_API int nvmfr_soft_notify(struct nvmfr_soft_target *target, uint32_t notice);

/**
 * Puts entries of the caller's into the target's discovery log, behind its own, which names the target: bytes as they
 * go out, also bad ones. Those of an earlier call go. The generation counter moves on, and discovery controllers
 * that asked for it are told.
 *
 * @param target   the target
 * @param entries  count times 1,024 bytes (Discovery Log Page Entry), copied
 * @param count    0 to 65,536
 *
 * Threads: any.
 * Returns: 0; -EINVAL; -ENOMEM.
 */
NVMFR_API int nvmfr_soft_discovery_set(struct nvmfr_soft_target *target, const void *entries, uint32_t count);

/** What a fault does to the command (or connection) that it matches. */
enum nvmfr_soft_fault_kind {
	NVMFR_SOFT_FAULT_STATUS = 1,     /**< answers with NVMe status `value`, without doing it */
	NVMFR_SOFT_FAULT_SILENCE,        /**< does not answer, and does not do it */
	NVMFR_SOFT_FAULT_DELAY,          /**< answers `value` microseconds later */
	NVMFR_SOFT_FAULT_WRONG_CID,      /**< answers with the CID exclusive-or `value` */
	NVMFR_SOFT_FAULT_DUPLICATE,      /**< answers twice */
	NVMFR_SOFT_FAULT_EARLY,          /**< answers before the SEND completes, which comes `value` microseconds later */
	NVMFR_SOFT_FAULT_SHORT,          /**< answers with `value` bytes, fewer than a CQE has */
	NVMFR_SOFT_FAULT_RESULT,         /**< answers with CQE dwords 0 and 1 = `value`, without doing it */
	NVMFR_SOFT_FAULT_DISCONNECT,     /**< drops the connection instead of doing it */
	NVMFR_SOFT_FAULT_DISCONNECT_ALL, /**< drops every connection of the controller */
	NVMFR_SOFT_FAULT_QP_ERROR,       /**< the queue pair fails as a NIC's does: the SEND completes with an error */
	NVMFR_SOFT_FAULT_CM_REJECT,      /**< refuses the connection; value: RDMA transport reject status, 0 none told (no listener) */
	NVMFR_SOFT_FAULT_CM_STALE,       /**< refuses the connection as stale */
	NVMFR_SOFT_FAULT_CM_SILENCE,     /**< never answers the connection request */
	NVMFR_SOFT_FAULT_CM_UNREACHABLE, /**< the address does not answer */
	NVMFR_SOFT_FAULT_CM_DISCONNECT,  /**< drops the connection right after it was established */
	NVMFR_SOFT_FAULT_STUCK,          /**< does not answer nor do it, but can be aborted: one command of a queue at a time */
	NVMFR_SOFT_FAULT_NOT_READY,      /**< has no receive posted (RNR): its SEND and those behind it wait `value` microseconds */
	NVMFR_SOFT_FAULT_LOG_CHANGE,     /**< Get Log Page: the counters of ANA and discovery log move on just before */
	NVMFR_SOFT_FAULT_LOG_START,      /**< Get Log Page: ignores the offset */
	NVMFR_SOFT_FAULT_LOG_WORD,       /**< Get Log Page: the four bytes at `value` >> 32 of the page are the low half of `value` */
	NVMFR_SOFT_FAULT_LINGER          /**< answers `value` microseconds later. Until then a Read (of one descriptor,
					      one of a queue at a time) has its data written again and again; with
					      NVMFR_SOFT_THREAD also on a connection that was lost, until this
					      host's own end of it is stopped */
};

/** Matches any value of that field. */
#define NVMFR_SOFT_ANY 0xffffffffu

/** One entry of the fault plan. Entries are looked at in order; the first that matches and is not used up applies. */
struct nvmfr_soft_fault {
	size_t size;     /**< sizeof this struct; set by init */
	uint32_t kind;   /**< enum nvmfr_soft_fault_kind */
	uint32_t qid;    /**< queue, or NVMFR_SOFT_ANY */
	uint32_t opcode; /**< SQE opcode, or NVMFR_SOFT_ANY; not looked at by CM kinds */
	uint32_t detail; /**< Fabrics: FCTYPE; Identify: CNS; Features: FID; Get Log Page: LID; else not looked at; or NVMFR_SOFT_ANY */
	uint32_t skip;   /**< lets so many matches pass first */
	uint32_t count;  /**< applies so often; 0: always */
	uint64_t value;  /**< see the kind */
};

/**
 * Fills a fault that matches every command once.
 *
 * @param fault  to fill
 * @param size   sizeof *fault
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_soft_fault_init(struct nvmfr_soft_fault *fault, size_t size);

/**
 * Adds an entry to the fault plan.
 *
 * @param target  the target
 * @param fault   copied
 *
 * Threads: any.
 * Returns: 0; -EINVAL; -ENOMEM.
 */
NVMFR_API int nvmfr_soft_fault_add(struct nvmfr_soft_target *target, const struct nvmfr_soft_fault *fault);

/**
 * Empties the fault plan and the identify patches.
 *
 * @param target  the target
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_soft_fault_clear(struct nvmfr_soft_target *target);

/**
 * Overwrites bytes of an Identify page before it goes out.
 *
 * @param target  the target
 * @param cns     Identify CNS
 * @param nsid    namespace, or NVMFR_SOFT_ANY
 * @param offset  first byte
 * @param bytes   1 to 16 bytes
 * @param len     how many
 *
 * Threads: any.
 * Returns: 0; -EINVAL; -ENOSPC too many patches.
 */
NVMFR_API int nvmfr_soft_patch_identify(struct nvmfr_soft_target *target, uint32_t cns, uint32_t nsid,
					uint32_t offset, const void *bytes, uint32_t len);

/**
 * Drops every connection, as a target that dies.
 *
 * @param target  the target
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_soft_drop(struct nvmfr_soft_target *target);

/** What a target counted. */
struct nvmfr_soft_counters {
	size_t size;                /**< sizeof this struct, set by the caller */
	uint64_t commands;          /**< commands received */
	uint64_t reads;             /**< Read commands done */
	uint64_t writes;            /**< Write commands done */
	uint64_t in_capsule_writes; /**< of those: data came in the capsule */
	uint64_t bytes_moved;       /**< by this target's memcpy, which stands for the NIC's DMA */
	uint64_t violations;        /**< rules that the initiator broke (keys, bounds, limits, queue overrun) */
	uint64_t connections;       /**< accepted */
	uint64_t open_connections;  /**< now */
	uint64_t max_outstanding;   /**< most commands seen outstanding on one queue */
	uint64_t keep_alives;       /**< Keep Alive commands */
};

/**
 * Reads the counters.
 *
 * @param target    the target
 * @param counters  with size set; filled as far as it goes
 *
 * Threads: any.
 * Returns: 0; -EINVAL.
 */
NVMFR_API int nvmfr_soft_read_counters(struct nvmfr_soft_target *target, struct nvmfr_soft_counters *counters);

/**
 * The target's last violation in words, for tests.
 *
 * @param target  the target
 * @param text    receives it, "" when there was none
 * @param bytes   room in text
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_soft_last_violation(struct nvmfr_soft_target *target, char *text, size_t bytes);

/**
 * Stops the host's clock: time passes only by nvmfr_soft_clock_advance_us() and by waiting functions,
 * which jump to the next due time instead of sleeping. For hosts with NVMFR_HOST_MANUAL.
 *
 * @param host  the host
 *
 * Threads: any.
 * Returns: 0; -EINVAL the host has a service thread.
 */
NVMFR_API int nvmfr_soft_clock_freeze(struct nvmfr_host *host);

/**
 * Lets virtual time pass.
 *
 * @param host  the host
 * @param us    microseconds
 *
 * Threads: any.
 * Returns: 0; -EINVAL the clock is not frozen.
 */
NVMFR_API int nvmfr_soft_clock_advance_us(struct nvmfr_host *host, uint64_t us);

#ifdef __cplusplus
}
#endif
#endif
