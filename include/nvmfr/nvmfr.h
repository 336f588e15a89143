/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * @file nvmfr.h
 * NVMe over Fabrics from user space: connect, register buffer, submit, poll.
 *
 * Conventions (doc/conventions.md has them at length):
 * - Functions return 0 or a count, or a negative errno. nvmfr_last_error() then has this thread's
 *   sentence: what failed, where, why.
 * - NVMe status never travels in a return value: it arrives in nvmfr_completion.status.
 * - Every struct that may grow begins with `size`; its _init function sets it and the defaults.
 * - Counts are 1-based; units are in the name.
 * - A queue pair and all its calls belong to one thread at a time. Host, controller and buffer calls
 *   may come from any thread (doc/threading.md).
 * - In a forked child every call on a handle of the parent's answers -EOWNERDEAD; to release one frees
 *   memory of the child's and nothing else.
 */
#ifndef NVMFR_NVMFR_H
#define NVMFR_NVMFR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
/** Marks an exported symbol. */
#define NVMFR_API __attribute__((visibility("default")))
/** Marks a function whose return value must be looked at. */
#define NVMFR_MUST_CHECK __attribute__((warn_unused_result))
#else
#define NVMFR_API
#define NVMFR_MUST_CHECK
#endif

/** Who we are: host NQN, host ID, devices, buffers, service thread. */
struct nvmfr_host;
/** One association with one controller. */
struct nvmfr_ctrl;
/** One I/O queue pair; used by one thread at a time. */
struct nvmfr_qpair;
/** I/Os of a queue pair that are built once and submitted again and again. */
struct nvmfr_prepared;
/** Queue pairs of one thread that are polled together. */
struct nvmfr_group;
/** Registered memory, good for every controller of its host. */
struct nvmfr_buffer;
/** Several controllers of one subsystem, as ways to the same namespaces. */
struct nvmfr_mpath;
/** A thread's queue pairs to them, one a path. */
struct nvmfr_mqpair;
/** What discovery controllers told. */
struct nvmfr_discovery;
/** Controllers of all that a discovery controller lists. */
struct nvmfr_pool;

/* ---- library ---------------------------------------------------------------------------------- */

/** Major version, the soversion. */
#define NVMFR_VERSION_MAJOR 0
/** Minor version. */
#define NVMFR_VERSION_MINOR 1
/** Patch level. */
#define NVMFR_VERSION_PATCH 0

/**
 * The version of the library in use: major << 16 | minor << 8 | patch.
 *
 * Threads: any.
 * Returns: the version; compare it with the NVMFR_VERSION_ macros compiled in.
 */
NVMFR_API uint32_t nvmfr_version(void);

/**
 * What this machine offers: RDMA devices, ports, GIDs, NUMA nodes, the memlock limit, and what is
 * missing and how to get it, as JSON text.
 *
 * @param text        receives the text, always terminated when text_bytes > 0
 * @param text_bytes  room in text
 *
 * Threads: any.
 * Returns: the bytes the whole text needs, its NUL included; more than text_bytes means that it was cut.
 */
NVMFR_API int nvmfr_probe(char *text, size_t text_bytes);

/**
 * An errno in words.
 *
 * @param err  a negative (or positive) errno
 *
 * Threads: any.
 * Returns: a constant string, never NULL.
 */
NVMFR_API const char *nvmfr_strerror(int err);

/**
 * An NVMe status in words (NVM Express Base Specification, Completion Queue Entry, Status Field).
 *
 * @param status  CQE dword 3 bits 31:17, as in nvmfr_completion.status
 *
 * Threads: any.
 * Returns: a constant string, never NULL.
 */
NVMFR_API const char *nvmfr_status_string(uint16_t status);

/**
 * This thread's last sentence of failure: stage, peer, cause, what to do.
 *
 * Threads: any; each thread has its own.
 * Returns: a string that stays until this thread's next call; it has a meaning after a failing call only. Never NULL.
 */
NVMFR_API const char *nvmfr_last_error(void);

/* ---- host ------------------------------------------------------------------------------------- */

/** How much the log sink hears. */
enum nvmfr_log_level {
	NVMFR_LOG_ERROR = 1, /**< something was lost */
	NVMFR_LOG_WARN,      /**< odd, and survived */
	NVMFR_LOG_INFO,      /**< the story: connects, losses, namespaces */
	NVMFR_LOG_DEBUG      /**< every step */
};

/**
 * The log sink: called from any thread, never per I/O. The library holds a lock of its own meanwhile: of
 * its functions the sink may call nvmfr_strerror() and nvmfr_status_string() and no other. It returns: there are no
 * unwind tables here for an exception or a cancelled thread to pass.
 */
typedef void (*nvmfr_log_fn)(void *arg, enum nvmfr_log_level level, const char *msg);

/** Flags of nvmfr_host_opts. */
enum nvmfr_host_flags {
	NVMFR_HOST_MANUAL = 1 /**< no service thread: the application calls nvmfr_host_poll() */
};

/** Options of a host. */
struct nvmfr_host_opts {
	size_t size;         /**< sizeof this struct as the caller was compiled; set by init */
	const char *hostnqn; /**< NULL: /etc/nvme/hostnqn, else made from the machine id; at most 223 bytes */
	uint8_t hostid[16];  /**< all zero: /etc/nvme/hostid if the NQN came from there too, else derived from the NQN */
	uint32_t flags;      /**< enum nvmfr_host_flags */
	uint32_t log_level;  /**< enum nvmfr_log_level; default NVMFR_LOG_WARN */
	nvmfr_log_fn log_fn; /**< NULL: silent */
	void *log_arg;       /**< passed to log_fn */
};

/**
 * Fills opts with defaults.
 *
 * @param opts  to fill
 * @param size  sizeof *opts
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_host_opts_init(struct nvmfr_host_opts *opts, size_t size);

/**
 * Creates a host and, without NVMFR_HOST_MANUAL, its service thread, which answers for connection
 * events, keep-alive, timeouts and admin completions of all its controllers.
 *
 * @param opts  NULL: defaults
 * @param out   receives the host, NULL on failure
 *
 * Threads: any.
 * Returns: 0; -EINVAL bad NQN or flags; -E2BIG opts has fields this library does not know; -ENOMEM;
 * or the errno of a thread or descriptor that could not be had.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_host_create(const struct nvmfr_host_opts *opts, struct nvmfr_host **out);

/**
 * With NVMFR_HOST_MANUAL: does what the service thread would do now, without waiting.
 *
 * @param host  the host
 *
 * Threads: any.
 * Returns: 0; -EINVAL the host has a service thread; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_host_poll(struct nvmfr_host *host);

/**
 * A descriptor that is readable when nvmfr_host_poll() has something to do (epoll, poll, select).
 *
 * @param host  the host
 *
 * Threads: any.
 * Returns: the descriptor, owned by the host; -EINVAL host is NULL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_host_fd(const struct nvmfr_host *host);

/**
 * When nvmfr_host_poll() is due next even if its descriptor stays silent.
 *
 * @param host  the host
 *
 * Threads: any.
 * Returns: milliseconds, rounded up; -1: no timer runs; -EINVAL host is NULL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_host_timeout_ms(const struct nvmfr_host *host);

/**
 * The host NQN in use.
 *
 * @param host  the host
 *
 * Threads: any.
 * Returns: a string owned by the host.
 */
NVMFR_API const char *nvmfr_host_nqn(const struct nvmfr_host *host);

/**
 * Ends a host. Its controllers and buffers must be gone: those left are logged, disconnected abruptly
 * and released.
 *
 * @param host  the host, or NULL
 *
 * Threads: any, but never concurrently with another call on this host.
 */
NVMFR_API void nvmfr_host_destroy(struct nvmfr_host *host);

/* ---- memory ----------------------------------------------------------------------------------- */

/** What the peer may do with a buffer. */
enum nvmfr_access {
	NVMFR_ACCESS_SOURCE = 1, /**< namespace writes take data from it */
	NVMFR_ACCESS_TARGET = 2, /**< namespace reads land in it */
	NVMFR_ACCESS_BOTH = 3    /**< both */
};

/**
 * Registers memory of the caller: any address, size, alignment and page size (malloc, mmap, memfd, huge
 * pages, a file mapping where the kernel allows pinning). It is split over several memory regions
 * where a device caps their size. Read-only memory can be a SOURCE.
 *
 * @param host       the host
 * @param addr       first byte
 * @param len_bytes  1 or more
 * @param access     enum nvmfr_access, at least one
 * @param out        receives the buffer, NULL on failure
 *
 * The memory stays the caller's and must stay mapped until nvmfr_buffer_release().
 *
 * Threads: any.
 * Returns: 0; -EINVAL bad argument; -EFAULT a page is not mapped or not accessible as asked; -ENOMEM
 * memory or the memlock limit; -EOPNOTSUPP memory that cannot be pinned; the sentence says which.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_buffer_register(struct nvmfr_host *host, void *addr, size_t len_bytes,
						     uint32_t access, struct nvmfr_buffer **out);

/**
 * Registers memory that a dma-buf stands for (a GPU's, say). The CPU never touches it: no in-capsule data.
 *
 * @param host          the host
 * @param fd            the dma-buf; duplicated, stays the caller's
 * @param offset_bytes  first byte in the dma-buf, any alignment
 * @param len_bytes     1 or more
 * @param access        enum nvmfr_access
 * @param out           receives the buffer, NULL on failure
 *
 * Threads: any.
 * Returns: 0; -EINVAL; -EBADF; -EOPNOTSUPP a device or its driver has no dma-buf registration; -ENOMEM.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_buffer_register_dmabuf(struct nvmfr_host *host, int fd,
							    uint64_t offset_bytes, size_t len_bytes,
							    uint32_t access, struct nvmfr_buffer **out);

/**
 * Allocates zeroed memory, on huge pages if there are any, locks it and registers it for both directions.
 * Where the memlock limit forbids to lock it, an RDMA device refuses it, too; with soft targets only it
 * is populated but not locked, and the log says so.
 *
 * @param host       the host
 * @param len_bytes  1 or more
 * @param numa_node  a node; -1: the node of the host's first open device, else the caller's
 * @param out        receives the buffer, NULL on failure
 *
 * Threads: any.
 * Returns: as nvmfr_buffer_register().
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_buffer_alloc(struct nvmfr_host *host, size_t len_bytes, int numa_node,
						  struct nvmfr_buffer **out);

/**
 * The first byte of a buffer.
 *
 * @param buf  the buffer
 *
 * Threads: any.
 * Returns: its address; NULL for a dma-buf.
 */
NVMFR_API void *nvmfr_buffer_addr(const struct nvmfr_buffer *buf);

/**
 * The length of a buffer.
 *
 * @param buf  the buffer
 *
 * Threads: any.
 * Returns: bytes.
 */
NVMFR_API size_t nvmfr_buffer_size(const struct nvmfr_buffer *buf);

/**
 * Ends a registration and, for nvmfr_buffer_alloc(), the memory.
 *
 * @param buf  the buffer, or NULL
 *
 * Threads: any.
 * Returns: 0; -EBUSY a command in flight or a prepared list still names it, and it stays as it is. That is exact
 * when the queue pair's owner asks; from another thread it is a look at a moment.
 */
NVMFR_API int nvmfr_buffer_release(struct nvmfr_buffer *buf);

/* ---- controller ------------------------------------------------------------------------------- */

/**
 * Options of an association.
 *
 * The target is a URI:
 * - `nvmf+rdma://ADDRESS[:PORT]/SUBNQN`, the address a name, IPv4, or IPv6 in brackets (with %scope);
 *   port 4420 when none is given;
 * - `nvmf+soft:///PATH?block=4096`: a file through the embedded target; `nvmf+soft:?size=64M`: RAM;
 *   also `ro=1`, and `latency_us=N`: responses are due so long after their commands;
 *   `nvmf+soft://NAME[/SUBNQN][?port=N]`: a target made with nvmfr_soft_target_create(), by way of its port 1
 *   to 8 (1). Without a name: `size`
 *   in bytes, or with K, M, G or T (64M; a file's own), `block` 512 or 4096 (512), `ro=1` read-only; a
 *   relative path follows the colon at once, `%` and two hex digits stand for a byte of the path.
 *
 * Or traddr, trsvcid and subnqn for RDMA.
 */
struct nvmfr_ctrl_opts {
	size_t size;                 /**< sizeof this struct; set by init */
	const char *uri;             /**< the target, or NULL and the next three */
	const char *traddr;          /**< address or name */
	const char *trsvcid;         /**< port; NULL: 4420 */
	const char *subnqn;          /**< NQN of the subsystem, at most 223 bytes */
	const char *host_traddr;     /**< local address to come from; NULL: routing chooses */
	uint32_t kato_ms;            /**< keep-alive timeout; 0: no keep-alive (a dead peer is then noticed late) */
	uint32_t connect_timeout_ms; /**< bound on the whole connect sequence */
	uint32_t admin_timeout_ms;   /**< bound on one admin command */
	uint16_t num_io_queues;      /**< wanted; nvmfr_ctrl_info has what was granted */
	uint16_t admin_depth;        /**< admin commands in flight; 31 suits every target (an admin queue of 32 entries) */
	uint8_t tos;                 /**< RDMA type of service; 0: as routed */
	uint8_t ack_timeout;         /**< RDMA ack timeout, 4.096 us * 2^n; 0: the device's default */
	uint8_t retry_count;         /**< RDMA transport retries, 0 to 7 */
	uint8_t rnr_retry_count;     /**< RDMA receiver-not-ready retries, 0 to 7; 7: for ever */
	uint32_t ctrl_loss_timeout_ms; /**< after a loss, connect anew for so long; 0: lost at once; UINT32_MAX: for ever */
	uint32_t reconnect_delay_ms; /**< before the first attempt; doubles up to 8 times, and varies by a quarter */
	uint32_t fast_io_fail_ms;    /**< lost for so long: what waits to be issued again ends, new I/O is refused; 0: not before ctrl_loss_timeout_ms */
};

/** States of a controller or a queue pair. */
enum nvmfr_state {
	NVMFR_STATE_CONNECTING = 1, /**< not usable yet */
	NVMFR_STATE_LIVE,           /**< usable */
	NVMFR_STATE_LOST,           /**< failed or lost for good; the wait function's sentence says why */
	NVMFR_STATE_RECOVERING      /**< lost, and being made anew: see ctrl_loss_timeout_ms */
};

/** What is known of a controller. Zero where it does not tell. */
struct nvmfr_ctrl_info {
	size_t size;                  /**< sizeof this struct, set by the caller */
	uint16_t cntlid;              /**< controller ID, from Connect */
	uint16_t num_io_queues;       /**< granted */
	uint16_t max_queue_depth;     /**< most commands in flight on an I/O queue pair */
	uint16_t max_sgl_descriptors; /**< most SGL descriptors in a command */
	uint32_t max_xfer_bytes;      /**< one command's limit; a longer I/O is carried by several */
	uint32_t max_icd_bytes;       /**< write data that can travel in the command capsule */
	uint32_t ns_count;            /**< active namespaces */
	uint32_t kato_ms;             /**< keep-alive timeout in use, 0: none */
	uint32_t version;             /**< the controller's VS: major << 16 | minor << 8 | tertiary */
	uint16_t vid;                 /**< PCI vendor ID */
	uint16_t oncs;                /**< optional NVM commands, Identify Controller ONCS */
	uint8_t mdts;                 /**< Identify Controller MDTS as it came */
	uint8_t reserved[3];          /**< zero */
	char serial[21];              /**< terminated, blanks stripped */
	char model[41];               /**< terminated, blanks stripped */
	char firmware[9];             /**< terminated, blanks stripped */
	char device[65];              /**< the local RDMA device, or "soft" */
	char subnqn[224];             /**< NQN of the subsystem connected to */
	int32_t numa_node;            /**< the device's, on which its threads should run; -1: unknown, or one node only */
};

/** Asymmetric Namespace Access states (NVM Express Base, ANA State), as they come. */
enum nvmfr_ana_state {
	NVMFR_ANA_NONE = 0,            /**< the controller does not tell */
	NVMFR_ANA_OPTIMIZED = 1,       /**< the way to take */
	NVMFR_ANA_NON_OPTIMIZED = 2,   /**< it works; others may be quicker */
	NVMFR_ANA_INACCESSIBLE = 3,    /**< not now */
	NVMFR_ANA_PERSISTENT_LOSS = 4, /**< not any more */
	NVMFR_ANA_CHANGE = 15          /**< in transition; for longer than ANATT it becomes NVMFR_ANA_INACCESSIBLE */
};

/** What is known of a namespace. */
struct nvmfr_ns_info {
	size_t size;              /**< sizeof this struct, set by the caller */
	uint64_t capacity_blocks; /**< Identify Namespace NSZE */
	uint32_t nsid;            /**< namespace ID */
	uint32_t block_bytes;     /**< data bytes of a logical block */
	uint32_t metadata_bytes;  /**< metadata bytes of a logical block */
	uint8_t read_only;        /**< 1: write protected */
	uint8_t ana_state;        /**< enum nvmfr_ana_state: by way of this controller */
	uint8_t reserved[2];      /**< zero */
	uint8_t nguid[16];        /**< zero: none */
	uint8_t uuid[16];         /**< zero: none */
	uint8_t eui64[8];         /**< zero: none */
	uint32_t ana_group;       /**< ANA group; 0: none */
	uint32_t reserved1;       /**< zero */
};

/**
 * Fills opts with defaults: keep-alive 10 s, connect within 30 s, an admin command within 10 s, 128 I/O
 * queues, 31 admin commands in flight, both RDMA retry counts 7, no recovery (delay 1 s where it is wanted, and I/O
 * that waits for it waits as long as it lasts).
 *
 * @param opts  to fill
 * @param size  sizeof *opts
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_ctrl_opts_init(struct nvmfr_ctrl_opts *opts, size_t size);

/**
 * Starts an association and returns without waiting; nvmfr_ctrl_wait() tells how it ended.
 *
 * @param host  the host
 * @param opts  the target; strings are copied
 * @param out   receives the controller, NULL on failure
 *
 * Threads: any.
 * Returns: 0; -EINVAL or -E2BIG bad options, with no effect; -ENOENT a soft target's name or file;
 * -ENODEV no RDMA device; -ENOMEM.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_connect(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *opts,
					     struct nvmfr_ctrl **out);

/**
 * Waits until a controller is live or lost for good. With NVMFR_HOST_MANUAL it drives the host meanwhile.
 *
 * @param ctrl        the controller
 * @param timeout_ms  -1: as long as the connect's own bound
 *
 * Threads: any.
 * Returns: 0 live; -ETIMEDOUT still connecting (nvmfr_ctrl_state() tells it from the end of a connect);
 * else what ended it: -EHOSTUNREACH no name, route or answer, -ENODEV no RDMA device leads there,
 * -ECONNREFUSED rejected, -EACCES this host is not allowed, -ENOENT no such subsystem, -EBUSY, -EPROTO the
 * peer broke the rules, -EOPNOTSUPP it demands what this library cannot do, -EIO it refused a command,
 * -ECONNRESET the peer closed the connection, -ECONNABORTED it broke, -ETIMEDOUT, -ENOMEM, -ENOTCONN lost
 * after it was live.
 */
NVMFR_API int nvmfr_ctrl_wait(struct nvmfr_ctrl *ctrl, int timeout_ms);

/**
 * The state of a controller.
 *
 * @param ctrl  the controller
 *
 * Threads: any.
 * Returns: enum nvmfr_state; -EINVAL ctrl is NULL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_ctrl_state(const struct nvmfr_ctrl *ctrl);

/**
 * What is known of a controller.
 *
 * @param ctrl  the controller
 * @param info  with size set; filled as far as it goes
 *
 * Threads: any.
 * Returns: 0; -EAGAIN still connecting; -EINVAL.
 */
NVMFR_API int nvmfr_ctrl_info(const struct nvmfr_ctrl *ctrl, struct nvmfr_ctrl_info *info);

/**
 * All that the library knows of a controller, as JSON text: target, state with its step or reason, what
 * the controller said of itself, limits in use, queue pairs with their phase and counts (commands: as of up to 0.1 s
 * ago), namespaces, counts, the last losses. For logs and
 * reports; names stay, new ones may come.
 *
 * @param ctrl        the controller, in any state
 * @param text        receives the text, always terminated when text_bytes > 0
 * @param text_bytes  room in text; 0: none, to learn how much is needed
 *
 * Threads: any.
 * Returns: the bytes the whole text needs, its NUL included; more than text_bytes means that it was cut;
 * -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_ctrl_dump(const struct nvmfr_ctrl *ctrl, char *text, size_t text_bytes);

/**
 * The next active namespace.
 *
 * @param ctrl        the controller
 * @param after_nsid  0: the first
 *
 * Threads: any.
 * Returns: a namespace ID, 0: no more.
 */
NVMFR_API uint32_t nvmfr_ns_next(const struct nvmfr_ctrl *ctrl, uint32_t after_nsid);

/**
 * What is known of a namespace.
 *
 * @param ctrl  the controller
 * @param nsid  the namespace
 * @param info  with size set; filled as far as it goes
 *
 * Threads: any.
 * Returns: 0; -ENOENT not active here; -EINVAL.
 */
NVMFR_API int nvmfr_ns_info(const struct nvmfr_ctrl *ctrl, uint32_t nsid, struct nvmfr_ns_info *info);

/**
 * Ends an association: orderly (shutdown notification) within the time, abruptly after it. Frees the controller.
 *
 * @param ctrl        the controller, or NULL
 * @param timeout_ms  bound on the orderly part; 0 or less: abrupt
 *
 * Threads: any, but no other call on this controller may run.
 * Returns: 0; -EBUSY queue pairs exist, or it is a path of an nvmfr_mpath, and nothing happened.
 */
NVMFR_API int nvmfr_disconnect(struct nvmfr_ctrl *ctrl, int timeout_ms);

/* ---- events ----------------------------------------------------------------------------------- */

/** What happened. */
enum nvmfr_event_type {
	NVMFR_EVENT_STATE = 1,         /**< a controller is live or lost; value: enum nvmfr_state, result: as nvmfr_ctrl_wait() */
	NVMFR_EVENT_NS_ADDED,          /**< nsid can be used now */
	NVMFR_EVENT_NS_REMOVED,        /**< nsid is not active any more: submits to it answer -ENOENT */
	NVMFR_EVENT_NS_CHANGED,        /**< nsid is another now; value: enum nvmfr_ns_change */
	NVMFR_EVENT_ANA_CHANGED,       /**< ANA states: nvmfr_ns_info() has them; value: the ANA log's change count, 0: it could not be read */
	NVMFR_EVENT_DISCOVERY_CHANGED, /**< the discovery log; value: its generation counter, 0: it could not be read, or it is one referred to */
	NVMFR_EVENT_ERROR,             /**< passed on: aer_type, aer_info, log_page */
	NVMFR_EVENT_HEALTH,            /**< passed on: a critical warning, aer_info tells which */
	NVMFR_EVENT_FIRMWARE,          /**< passed on: firmware is being activated, the controller pauses */
	NVMFR_EVENT_VENDOR,            /**< passed on: the vendor's own */
	NVMFR_EVENT_OTHER,             /**< passed on: any other asynchronous event */
	NVMFR_EVENT_OVERFLOW,          /**< nobody fetched them: value events were lost here. ctrl is NULL */
	NVMFR_EVENT_CTRL_ADDED,        /**< of a pool: this controller is there and live */
	NVMFR_EVENT_CTRL_LEAVES,       /**< of a pool: not listed any more, or lost for good; destroy its queue pairs */
	NVMFR_EVENT_FAST_IO_FAIL       /**< fast_io_fail_ms is over: value queue pairs of this controller refuse I/O until they are live again */
};

/** What is another with a namespace; NVMFR_EVENT_NS_CHANGED without any: nothing that nvmfr_ns_info() tells. */
enum nvmfr_ns_change {
	NVMFR_NS_CHANGE_SIZE = 1,     /**< its capacity */
	NVMFR_NS_CHANGE_FORMAT = 2,   /**< block size or metadata */
	NVMFR_NS_CHANGE_IDENTITY = 4, /**< NGUID, UUID or EUI-64: another namespace; older queue pairs answer -ESTALE */
	NVMFR_NS_CHANGE_PROTECTION = 8 /**< write protection */
};

/** One event; a fixed size, for arrays. */
struct nvmfr_event {
	struct nvmfr_ctrl *ctrl; /**< whose; NULL: the host's */
	uint32_t type;           /**< enum nvmfr_event_type; expect others of later versions */
	uint32_t nsid;           /**< of NVMFR_EVENT_NS_*; else 0 */
	uint64_t value;          /**< see the type; passed on: the completion's dword 1 */
	int32_t result;          /**< see the type; else 0 */
	uint8_t aer_type;        /**< passed on: Asynchronous Event Type as it came */
	uint8_t aer_info;        /**< passed on: Asynchronous Event Information */
	uint8_t log_page;        /**< passed on: Log Page Identifier. The controller tells no more of that kind until it is read */
	uint8_t reserved;        /**< zero */
};

/**
 * Fetches events of all controllers of a host, oldest first, without waiting. The queue holds 256; what does
 * not fit is lost, and NVMFR_EVENT_OVERFLOW stands in its place: look at states and namespaces anew then.
 * Each event is fetched once, by whoever comes first. After nvmfr_disconnect() none of that controller comes.
 * With NVMFR_HOST_MANUAL they arise in nvmfr_host_poll() and in functions that wait.
 *
 * @param host  the host
 * @param out   room for max
 * @param max   1 or more
 *
 * Threads: any.
 * Returns: how many, 0: none is there; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_host_events(struct nvmfr_host *host, struct nvmfr_event *out, unsigned int max);

/**
 * A descriptor that is readable as long as there are events (epoll, poll, select).
 *
 * @param host  the host
 *
 * Threads: any.
 * Returns: the descriptor, owned by the host; -EINVAL host is NULL; -EOWNERDEAD in a forked child; -EMFILE or
 * another errno of a descriptor that could not be had.
 */
NVMFR_API int nvmfr_host_event_fd(struct nvmfr_host *host);

/* ---- discovery -------------------------------------------------------------------------------- */

/** Flags of nvmfr_discover(). */
enum nvmfr_discover_flags {
	NVMFR_DISCOVER_PERSISTENT = 1,  /**< stays connected: NVMFR_EVENT_DISCOVERY_CHANGED comes when a log changes */
	NVMFR_DISCOVER_NO_REFERRALS = 2 /**< reads the one log; referrals stay records */
};

/** A record of a discovery log. Values as on the wire (NVMe over Fabrics, Discovery Log Page Entry). */
struct nvmfr_discovery_record {
	size_t size;       /**< sizeof this struct, set by the caller */
	uint8_t trtype;    /**< 1 RDMA, 2 FC, 3 TCP, 254 this host (embedded targets) */
	uint8_t adrfam;    /**< 1 IPv4, 2 IPv6, 3 InfiniBand, 4 FC, 254 this host */
	uint8_t subtype;   /**< 1 a referral to another discovery controller, 2 an NVM subsystem, 3 the discovery subsystem itself */
	uint8_t treq;      /**< transport requirements */
	uint16_t portid;   /**< the subsystem's port */
	uint16_t cntlid;   /**< controller ID; FFFFh: any */
	uint16_t asqsz;    /**< entries of the admin queue */
	uint16_t eflags;   /**< entry flags */
	uint32_t log;      /**< whose log it is of: 0 the one asked, then those referred to */
	char traddr[257];  /**< address, terminated, blanks stripped */
	char trsvcid[33];  /**< port, terminated, blanks stripped */
	char subnqn[224];  /**< NQN of the subsystem */
	char uri[542];     /**< for nvmfr_ctrl_opts.uri; "": this library cannot connect there */
};

/** What was read. */
struct nvmfr_discovery_info {
	size_t size;         /**< sizeof this struct, set by the caller */
	uint64_t generation; /**< generation counter of the log asked for */
	uint64_t left_out;   /**< records beyond 16384, which were not read */
	uint32_t records;    /**< for nvmfr_discovery_get() */
	uint32_t logs;       /**< read: one, and those referred to */
	uint32_t skipped;    /**< bad records that were left out; the log has the reasons of the first ones */
	uint32_t unreached;  /**< referrals that could not be followed; the log has the reasons */
	uint32_t unfollowed; /**< logs whose changes no event will tell: ask again for them from time to time */
	uint32_t reserved;   /**< zero */
};

/**
 * Asks a discovery controller what there is, and waits for it. All records are of one generation of their log.
 * Referrals are followed (up to 63 other places, each once; what is in several logs is told once); what is bad in a log
 * or cannot be reached is left out and counted. With NVMFR_HOST_MANUAL it drives the host meanwhile.
 *
 * NVMFR_DISCOVER_PERSISTENT also stays connected to the first 16 discovery controllers referred to: changes of their
 * logs come as events of nvmfr_discovery_ctrl() with value 0, as does that one is lost or back. Those beyond them,
 * those that do not stay or tell nothing, and those that could not be asked are nvmfr_discovery_info.unfollowed.
 *
 * @param host   the host
 * @param opts   the controller. A URI may lack the subsystem (`nvmf+rdma://ADDRESS[:PORT]`), subnqn may be NULL: it
 *               is the discovery subsystem then. kato_ms is used with NVMFR_DISCOVER_PERSISTENT only
 * @param flags  enum nvmfr_discover_flags
 * @param out    receives what was found, NULL on failure
 *
 * Threads: any; what comes out belongs to one thread at a time.
 * Returns: 0; -EINVAL, also: it is not a discovery controller; -EAGAIN the log changed each time while it was read;
 * -ETIMEDOUT connect_timeout_ms, which bounds each connect and the reading of each log, or admin_timeout_ms; else as
 * nvmfr_connect() and nvmfr_ctrl_wait(). All of it takes twice connect_timeout_ms at most, and a second to hang up:
 * referrals not followed by then are unreached.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_discover(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *opts,
					      uint32_t flags, struct nvmfr_discovery **out);

/**
 * Asks again. On failure what was found before stays; so do the records of a log referred to that cannot be read now.
 *
 * @param discovery  from nvmfr_discover()
 *
 * Threads: the owner.
 * Returns: 0; -ENOTCONN a persistent one has lost its controller: release it and discover anew; else as
 * nvmfr_discover().
 */
NVMFR_API int nvmfr_discovery_refresh(struct nvmfr_discovery *discovery);

/**
 * The controller of a persistent one: nvmfr_event.ctrl of its events. It is not to be disconnected.
 *
 * @param discovery  from nvmfr_discover()
 *
 * Threads: the owner.
 * Returns: the controller; NULL: it is not persistent.
 */
NVMFR_API struct nvmfr_ctrl *nvmfr_discovery_ctrl(const struct nvmfr_discovery *discovery);

/**
 * What was read, in numbers.
 *
 * @param discovery  from nvmfr_discover()
 * @param info       with size set; filled as far as it goes
 *
 * Threads: the owner.
 * Returns: 0; -EINVAL.
 */
NVMFR_API int nvmfr_discovery_info(const struct nvmfr_discovery *discovery, struct nvmfr_discovery_info *info);

/**
 * A record.
 *
 * @param discovery  from nvmfr_discover()
 * @param index      0 to nvmfr_discovery_info.records - 1
 * @param record     with size set; filled as far as it goes
 *
 * Threads: the owner.
 * Returns: 0; -ENOENT there are fewer; -EINVAL.
 */
NVMFR_API int nvmfr_discovery_get(const struct nvmfr_discovery *discovery, uint32_t index,
				  struct nvmfr_discovery_record *record);

/**
 * Ends it, and the association of a persistent one.
 *
 * @param discovery  from nvmfr_discover(), or NULL
 *
 * Threads: the owner; before its host ends.
 */
NVMFR_API void nvmfr_discovery_release(struct nvmfr_discovery *discovery);

/* ---- pool ------------------------------------------------------------------------------------- */

/**
 * Connects to everything that a discovery controller lists (referrals included), and stays so: what comes later is
 * connected, what goes is disconnected, by nvmfr_pool_update(). Where the application has a controller of its own
 * no other is made, and its own is left alone.
 *
 * @param host  the host
 * @param from  the discovery controller, by uri, as for nvmfr_discover(); with ctrl_loss_timeout_ms it outlives its
 *              target's restarts, without it is asked anew then
 * @param each  options of the controllers; uri, traddr and subnqn NULL. NULL: defaults
 * @param out   receives the pool, NULL on failure
 *
 * Threads: any; it belongs to one thread at a time.
 * Returns: 0, the controllers connect from then on; else as nvmfr_discover().
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_pool_create(struct nvmfr_host *host, const struct nvmfr_ctrl_opts *from,
						 const struct nvmfr_ctrl_opts *each, struct nvmfr_pool **out);

/**
 * Does what is to be done. To be called when the host had events (after they were looked at) and when
 * nvmfr_pool_timeout_ms() is over; cheap when nothing is. NVMFR_EVENT_CTRL_ADDED tells of a controller that is live,
 * NVMFR_EVENT_CTRL_LEAVES of one that goes: by the next call on which it has no queue pairs any more it is
 * disconnected and its pointer is dead. What could not be connected is tried again after 1 s, up to 60 s; logs whose
 * changes nobody tells (nvmfr_discovery_info.unfollowed) are read again after 1 s, up to 5 minutes.
 *
 * @param pool  the pool
 *
 * Threads: the owner. It waits while a log is read, or a discovery controller connected anew.
 * Returns: 0; -EINVAL; -EOWNERDEAD; else why the log cannot be read now: what there is stays, and it is tried again.
 */
NVMFR_API int nvmfr_pool_update(struct nvmfr_pool *pool);

/**
 * When nvmfr_pool_update() is due even if no event comes.
 *
 * @param pool  the pool
 *
 * Threads: the owner.
 * Returns: milliseconds, rounded up; -1: events will tell; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_pool_timeout_ms(const struct nvmfr_pool *pool);

/**
 * A controller that is there: told by NVMFR_EVENT_CTRL_ADDED, and not yet that it leaves. It is the pool's: not to be
 * disconnected.
 *
 * @param pool   the pool
 * @param index  from 0 on, until NULL comes
 *
 * Threads: the owner.
 * Returns: the controller; NULL: there are fewer.
 */
NVMFR_API struct nvmfr_ctrl *nvmfr_pool_ctrl(const struct nvmfr_pool *pool, uint32_t index);

/**
 * Ends a pool and disconnects its controllers.
 *
 * @param pool  the pool, or NULL
 *
 * Threads: the owner; before its host ends.
 * Returns: 0; -EBUSY queue pairs of its controllers exist, or one of these is a path, and nothing happened.
 */
NVMFR_API int nvmfr_pool_release(struct nvmfr_pool *pool);

/* ---- queue pair ------------------------------------------------------------------------------- */

/** Flags of nvmfr_qpair_opts. */
enum nvmfr_qpair_flags {
	NVMFR_QPAIR_STATS = 1 /**< counts I/O and bytes by direction, and latencies: nvmfr_qpair_stats(), nvmfr_qpair_latency() */
};

/**
 * What becomes of I/O that a lost association leaves without an answer, where the association is made anew
 * (nvmfr_ctrl_opts.ctrl_loss_timeout_ms). doc/resilience.md says why writes wait, and for how long.
 */
enum nvmfr_retry {
	NVMFR_RETRY_NONE = 0,  /**< it ends with -ECONNABORTED */
	NVMFR_RETRY_READS = 1, /**< reads are issued again after the recovery; all else ends so */
	NVMFR_RETRY_ALL = 2    /**< all; writes only when the old controller cannot carry them out any more */
};

/** Options of a queue pair. */
struct nvmfr_qpair_opts {
	size_t size;              /**< sizeof this struct; set by init */
	uint16_t depth;           /**< commands in flight wanted, 1 to 4095; the controller may grant fewer */
	uint16_t max_descriptors; /**< SGL descriptors a vectored command may use, 1 to 16; the controller may allow fewer */
	uint32_t io_timeout_ms;   /**< a command unanswered for so long is aborted, or else the association; 0: never */
	uint64_t qpair_data;      /**< comes back in each completion */
	uint32_t flags;           /**< enum nvmfr_qpair_flags */
	uint32_t retry;           /**< enum nvmfr_retry; other than 0 costs memory, and needs a ctrl_loss_timeout_ms */
	struct nvmfr_group *group; /**< of the same host; it belongs to the group's thread from then on. NULL: on its own */
};

/** What is known of a queue pair. */
struct nvmfr_qpair_info {
	size_t size;        /**< sizeof this struct, set by the caller */
	uint16_t qid;       /**< queue ID */
	uint16_t depth;     /**< commands in flight, granted */
	uint16_t state;     /**< enum nvmfr_state */
	uint16_t in_flight; /**< commands not completed yet */
	uint64_t commands;  /**< commands completed; an I/O carried by several counts each */
	uint64_t bounced_bytes; /**< bytes this library copied with the CPU: 0 unless an unaligned helper did */
};

/**
 * Fills opts with defaults: depth 128, 4 descriptors, 30 s timeout.
 *
 * @param opts  to fill
 * @param size  sizeof *opts
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_qpair_opts_init(struct nvmfr_qpair_opts *opts, size_t size);

/**
 * Starts a queue pair and returns without waiting; nvmfr_qpair_wait() tells how it ended.
 *
 * @param ctrl  a live controller
 * @param opts  NULL: defaults
 * @param out   receives the queue pair, NULL on failure
 *
 * Threads: any, of a group its owner; from then on it belongs to one thread at a time.
 * Returns: 0; -EINVAL; -E2BIG; -ENOTCONN the controller is not live; -EAGAIN it was lost and is connected anew;
 * -ENOSPC all granted queues are in use;
 * -EOPNOTSUPP a discovery controller; -ENOMEM.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_qpair_create(struct nvmfr_ctrl *ctrl, const struct nvmfr_qpair_opts *opts,
						  struct nvmfr_qpair **out);

/**
 * Waits until a queue pair is live or lost. With NVMFR_HOST_MANUAL it drives the host meanwhile. Of a
 * group: completions of the others that arrive meanwhile wait for the next poll.
 *
 * @param qp          the queue pair
 * @param timeout_ms  -1: as long as the connect's own bound
 *
 * Threads: the owner.
 * Returns: 0 live; -ETIMEDOUT still connecting; -EBUSY it was lost, and what was in flight has to be polled for
 * before it can be connected anew; else what ended it.
 */
NVMFR_API int nvmfr_qpair_wait(struct nvmfr_qpair *qp, int timeout_ms);

/**
 * What is known of a queue pair.
 *
 * @param qp    the queue pair
 * @param info  with size set; filled as far as it goes
 *
 * Threads: the owner.
 * Returns: 0; -EINVAL.
 */
NVMFR_API int nvmfr_qpair_info(struct nvmfr_qpair *qp, struct nvmfr_qpair_info *info);

/**
 * A descriptor to sleep on after nvmfr_qpair_arm() answered 0: readable at the next completion or when
 * the service has something to say. Level triggered; made at the first call. Of a group: the group's.
 *
 * @param qp  the queue pair
 *
 * Threads: the owner.
 * Returns: the descriptor, owned by the queue pair or its group; -errno.
 */
NVMFR_API int nvmfr_qpair_fd(struct nvmfr_qpair *qp);

/**
 * Asks for a wake-up at the next completion. Poll until 0, arm, and only if it answers 0 sleep on the descriptor.
 *
 * @param qp  the queue pair
 *
 * Threads: the owner.
 * Returns: 0 sleep; 1 poll again first; -EOWNERDEAD in a forked child; another -errno the descriptor or device failed.
 */
NVMFR_API int nvmfr_qpair_arm(struct nvmfr_qpair *qp);

/**
 * Ends a queue pair. Commands in flight get no completion; when it returns no peer can touch their memory any more.
 *
 * @param qp  the queue pair, or NULL
 *
 * Threads: the owner.
 */
NVMFR_API void nvmfr_qpair_destroy(struct nvmfr_qpair *qp);

/* ---- what happened ---------------------------------------------------------------------------- */

/** What a queue pair did since it was created, over all its connections; commands, of which an I/O may be several. */
struct nvmfr_qpair_stats {
	size_t size;          /**< sizeof this struct, set by the caller */
	uint64_t commands;    /**< completed, well or not */
	uint64_t refused;     /**< of them: the controller answered with an NVMe status */
	uint64_t aborted;     /**< of them: lost with a connection (-ECONNABORTED) */
	uint64_t timed_out;   /**< of them: -ETIMEDOUT */
	uint64_t reads;       /**< reads that ended well; with NVMFR_QPAIR_STATS, as all below, else 0 */
	uint64_t writes;      /**< writes that ended well */
	uint64_t others;      /**< other commands that ended well */
	uint64_t read_bytes;  /**< bytes of those reads */
	uint64_t write_bytes; /**< bytes of those writes */
};

/**
 * Counts of a queue pair.
 *
 * @param qp     the queue pair
 * @param stats  with size set; filled as far as it goes
 *
 * Threads: the owner.
 * Returns: 0; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_qpair_stats(struct nvmfr_qpair *qp, struct nvmfr_qpair_stats *stats);

/** A latency's bucket is never wider than 1 / 2^NVMFR_LATENCY_BITS of its values. */
#define NVMFR_LATENCY_BITS 4
/** Latencies of 2^NVMFR_LATENCY_VALUE_BITS ns and more (over an hour) share the last bucket. */
#define NVMFR_LATENCY_VALUE_BITS 42
/** Below 16 ns a bucket a value, above it 16 to each power of two: (42 - 4 + 1) * 16. */
#define NVMFR_LATENCY_BUCKETS 624

/** How long commands took, from their submit to the poll that found the answer. Log-linear; those of several add up. */
struct nvmfr_latency {
	size_t size;     /**< sizeof this struct, set by the caller */
	uint64_t count;  /**< commands that ended well */
	uint64_t sum_ns; /**< of all of them */
	uint64_t min_ns; /**< the shortest; 0 without any */
	uint64_t max_ns; /**< the longest */
	uint64_t buckets[NVMFR_LATENCY_BUCKETS]; /**< how many fell into each */
};

/**
 * Latencies of a queue pair that was created with NVMFR_QPAIR_STATS.
 *
 * @param qp       the queue pair
 * @param op       NVMFR_OP_READ, NVMFR_OP_WRITE; any other: those of all other commands
 * @param latency  with size set; filled as far as it goes
 *
 * Threads: the owner.
 * Returns: 0; -ENOENT it was created without NVMFR_QPAIR_STATS; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_qpair_latency(struct nvmfr_qpair *qp, uint32_t op, struct nvmfr_latency *latency);

/**
 * A percentile of latencies.
 *
 * @param latency  from nvmfr_qpair_latency(), or a sum of several
 * @param percent  0 to 100
 *
 * Threads: any.
 * Returns: nanoseconds that so many percent were not above, rounded up within a bucket; 0 without any.
 */
NVMFR_API uint64_t nvmfr_latency_percentile(const struct nvmfr_latency *latency, double percent);

/** What a controller's association went through since nvmfr_connect(). */
struct nvmfr_ctrl_stats {
	size_t size;             /**< sizeof this struct, set by the caller */
	uint64_t admin_commands; /**< sent for connecting, namespaces, log pages, the end */
	uint64_t keep_alives;    /**< Keep Alive commands sent */
	uint64_t aer_events;     /**< asynchronous events that arrived */
	uint64_t aborts;         /**< Abort commands sent */
	uint64_t losses;         /**< times that it was lost after it had been live */
	uint64_t attempts;       /**< connects anew that were begun */
	uint64_t recoveries;     /**< of them: succeeded */
};

/**
 * Counts of a controller.
 *
 * @param ctrl   the controller, in any state
 * @param stats  with size set; filled as far as it goes
 *
 * Threads: any.
 * Returns: 0; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_ctrl_stats(const struct nvmfr_ctrl *ctrl, struct nvmfr_ctrl_stats *stats);

/** One loss of an association, and what came of it. */
struct nvmfr_loss {
	size_t size;          /**< sizeof this struct, set by the caller */
	uint64_t ago_ms;      /**< it was lost so long ago */
	uint64_t duration_ms; /**< until it was live again, or lost for good; while it recovers: until now */
	uint32_t attempts;    /**< connects anew that were begun */
	uint32_t state;       /**< how it ended: enum nvmfr_state LIVE or LOST; RECOVERING: it goes on */
	int32_t err;          /**< why it was lost, as -errno */
	uint32_t reserved;    /**< zero */
	char cause[256];      /**< the same in words */
};

/**
 * A loss of a controller's association; the last 16 are kept.
 *
 * @param ctrl   the controller, in any state
 * @param index  0: the last one, 1: the one before
 * @param loss   with size set; filled as far as it goes
 *
 * Threads: any.
 * Returns: 0; -ENOENT there was none, or it is too long ago; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_ctrl_loss(const struct nvmfr_ctrl *ctrl, uint32_t index, struct nvmfr_loss *loss);

/* ---- group ------------------------------------------------------------------------------------ */

/** Options of a group. */
struct nvmfr_group_opts {
	size_t size;         /**< sizeof this struct; set by init */
	uint32_t max_qpairs; /**< 1 to 65535: room for so many is made at once; more work, each lot a little slower */
	uint32_t flags;      /**< zero */
};

/**
 * Fills opts with defaults: 64 queue pairs.
 *
 * @param opts  to fill
 * @param size  sizeof *opts
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_group_opts_init(struct nvmfr_group_opts *opts, size_t size);

/**
 * Creates a group: queue pairs of one thread, of any controllers of one host, that are polled together.
 * They share completion queues and descriptors, and an idle one costs a poll nothing. Queue pairs enter by
 * nvmfr_qpair_opts.group; over RDMA they connect while the group's owner polls, waits or sleeps, in the group or on a
 * queue pair of it.
 *
 * @param host  the host, which outlives the group
 * @param opts  NULL: defaults
 * @param out   receives the group, NULL on failure
 *
 * Threads: any; from then on it belongs to one thread at a time, with its queue pairs.
 * Returns: 0; -EINVAL or -E2BIG bad options; -EMFILE or -ENFILE no descriptor; -ENOMEM; -EOWNERDEAD.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_group_create(struct nvmfr_host *host, const struct nvmfr_group_opts *opts,
						  struct nvmfr_group **out);

/**
 * A descriptor to sleep on after nvmfr_group_arm() answered 0: readable at the next completion of any of its
 * queue pairs or when the service has something to say to one. Level triggered.
 *
 * @param group  the group
 *
 * Threads: the owner.
 * Returns: the descriptor, owned by the group; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_group_fd(const struct nvmfr_group *group);

/**
 * Asks for a wake-up at the next completion. Poll until 0, arm, and only if it answers 0 sleep on the descriptor.
 *
 * @param group  the group
 *
 * Threads: the owner.
 * Returns: 0 sleep; 1 poll again first; -EINVAL; -EOWNERDEAD in a forked child; another -errno the descriptor or
 * device failed.
 */
NVMFR_API int nvmfr_group_arm(struct nvmfr_group *group);

/**
 * Ends a group.
 *
 * @param group  the group, or NULL
 *
 * Threads: the owner.
 * Returns: 0; -EBUSY queue pairs of it exist, and nothing happened.
 */
NVMFR_API int nvmfr_group_destroy(struct nvmfr_group *group);

/* ---- I/O -------------------------------------------------------------------------------------- */

/** What an I/O does (NVM Command Set Specification, opcodes). */
enum nvmfr_op {
	NVMFR_OP_FLUSH = 0,       /**< make writes that completed durable */
	NVMFR_OP_WRITE = 1,       /**< buffer to namespace */
	NVMFR_OP_READ = 2,        /**< namespace to buffer */
	NVMFR_OP_COMPARE = 5,     /**< buffer with namespace: completes with status Compare Failure where they differ; where ONCS has it */
	NVMFR_OP_WRITE_ZEROES = 8, /**< zero a range, without data; where ONCS has it */
	NVMFR_OP_VERIFY = 12      /**< check that a range can be read, without data; where ONCS has it */
};

/** Flags of an I/O. */
enum nvmfr_io_flags {
	NVMFR_IO_FUA = 1, /**< force unit access: durable at completion, past any volatile cache */
	NVMFR_IO_VEC = 2  /**< iov and niov instead of buf and offset_bytes */
};

/** One piece of a vectored I/O. */
struct nvmfr_iov {
	struct nvmfr_buffer *buf; /**< registered memory */
	uint64_t offset_bytes;    /**< into buf */
	uint64_t len_bytes;       /**< 1 or more */
};

/**
 * One I/O, 64 bytes. An array of them is submitted at once.
 *
 * A vectored I/O's iov array must stay as it is until the completion, or nvmfr_qpair_destroy(); the
 * lengths must add up to nblocks. Where blocks straddle more pieces than a command can carry descriptors it is refused.
 */
struct nvmfr_io {
	uint8_t op;        /**< enum nvmfr_op */
	uint8_t reserved0; /**< zero */
	uint16_t flags;    /**< enum nvmfr_io_flags */
	uint32_t nsid;     /**< namespace */
	uint64_t lba;      /**< first logical block */
	uint64_t nblocks;  /**< 1 or more, no maximum; 0 for flush */
	union {
		struct nvmfr_buffer *buf;    /**< registered memory; NULL where no data moves */
		const struct nvmfr_iov *iov; /**< with NVMFR_IO_VEC */
	};
	union {
		uint64_t offset_bytes; /**< into buf */
		uint64_t niov;         /**< with NVMFR_IO_VEC: pieces, 1 or more */
	};
	uint64_t user_data;    /**< comes back in the completion */
	uint64_t reserved1[2]; /**< zero */
};

/** One completion, 32 bytes. */
struct nvmfr_completion {
	uint64_t user_data;  /**< the I/O's */
	uint64_t qpair_data; /**< the queue pair's */
	int32_t result;      /**< 0; -EREMOTEIO see status; -ECONNABORTED lost with the connection, outcome unknown; -ETIMEDOUT */
	uint16_t status;     /**< NVMe status, CQE dword 3 bits 31:17 (with -ETIMEDOUT: it was aborted); 0 when the failure was local */
	uint16_t flags;      /**< zero */
	uint64_t cqe_result; /**< CQE dwords 0 and 1 in host byte order; 0 when synthesized or split */
};

/**
 * Submits a read: nblocks from lba on to buf + offset_bytes.
 *
 * @param qp            the queue pair
 * @param nsid          namespace
 * @param lba           first block
 * @param nblocks       1 or more, no maximum
 * @param buf           registered with NVMFR_ACCESS_TARGET
 * @param offset_bytes  any alignment
 * @param user_data     comes back in the completion
 *
 * Threads: the owner.
 * Returns: 0 accepted, one completion will come; -EAGAIN no room, poll first, or the queue pair is still
 * connecting, or was lost and is connected anew; -EINVAL or -ERANGE a bad argument, nothing was sent; -ENOENT
 * no such namespace; -ESTALE another namespace has its ID since this queue pair was made; -EOPNOTSUPP a
 * format (metadata, protection information, other command set) or command that cannot be; -ENOTCONN lost,
 * or for longer than fast_io_fail_ms; -EOWNERDEAD in a forked child.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_read(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
					  struct nvmfr_buffer *buf, uint64_t offset_bytes, uint64_t user_data);

/**
 * Submits a write: nblocks from buf + offset_bytes to lba on. The bytes must not change before the completion.
 *
 * @param qp            the queue pair
 * @param nsid          namespace
 * @param lba           first block
 * @param nblocks       1 or more, no maximum
 * @param buf           registered with NVMFR_ACCESS_SOURCE
 * @param offset_bytes  any alignment
 * @param user_data     comes back in the completion
 *
 * Threads: the owner.
 * Returns: as nvmfr_read(); -EROFS the namespace is write protected.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_write(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t lba, uint64_t nblocks,
					   struct nvmfr_buffer *buf, uint64_t offset_bytes, uint64_t user_data);

/**
 * Submits n I/Os in order with one doorbell.
 *
 * @param qp   the queue pair
 * @param ios  n of them; read only, free again on return
 * @param n    1 or more
 *
 * Threads: the owner.
 * Returns: how many were taken (fewer when room runs out or the next one is bad: submit the rest again
 * to learn why); an error only if none was, as nvmfr_read().
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_submit(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n);

/**
 * Checks n I/Os and builds their commands once, to be submitted again and again with nvmfr_post(): for
 * callers that read the same places into the same memory all the time, at about half of nvmfr_submit()'s
 * price. That is so for reads and writes that one command with one descriptor carries; others go the way of
 * nvmfr_submit() each time, and may be in the list all the same.
 *
 * A list holds its buffers: nvmfr_buffer_release() answers -EBUSY until nvmfr_prepared_release(). iov arrays
 * must stay as they are until then. When the connection or a namespace has changed, the next nvmfr_post()
 * checks and builds anew.
 *
 * @param qp   the queue pair, live; no nvmfr_post() of the list may follow its end
 * @param ios  n of them, in the order in which nvmfr_post() counts them; read only, free again on return
 * @param n    1 or more
 * @param out  receives the list, NULL on failure
 *
 * Threads: the owner.
 * Returns: 0; -EAGAIN the queue pair is still connecting; -ENOMEM; else as nvmfr_read(), the sentence says
 * which I/O.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_prepare(struct nvmfr_qpair *qp, const struct nvmfr_io *ios, unsigned int n,
					     struct nvmfr_prepared **out);

/**
 * Submits I/Os of a list in order with one doorbell. One may be in flight several times.
 *
 * @param list   the list
 * @param first  the first one, counted from 0
 * @param n      how many, 1 or more
 *
 * Threads: the owner of its queue pair.
 * Returns: as nvmfr_submit(); -ERANGE not all of them are in the list, -EINVAL, and nothing was sent.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_post(struct nvmfr_prepared *list, unsigned int first, unsigned int n);

/**
 * Ends a list. Those of its I/Os that are in flight end as they would have.
 *
 * @param list  the list, or NULL
 *
 * Threads: any, but no other call on this list may run.
 */
NVMFR_API void nvmfr_prepared_release(struct nvmfr_prepared *list);

/**
 * Collects completions, without waiting.
 *
 * @param qp   the queue pair
 * @param out  room for max
 * @param max  1 or more
 *
 * Threads: the owner.
 * Returns: how many; 0: none is there, or the queue pair is still connecting, or anew; -ENOTCONN lost, and every
 * accepted I/O has been completed; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_poll(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int max);

/**
 * Collects completions: sleeps until min are there, the time is over, or no more can come because nothing
 * is left in flight. Where answers have lately come within some 20 us it polls for so long first. Where more
 * than one is wanted it may pause for 50 us (and the kernel's timer slack), so that not each of them wakes it.
 * With NVMFR_HOST_MANUAL it drives the host meanwhile.
 *
 * With nothing in flight a wait without a timeout would end only with the association, and is refused.
 * With one it sleeps until then, or until the queue pair is lost. On a queue pair that is still connecting
 * it sleeps until it is live or lost.
 *
 * @param qp          the queue pair
 * @param out         room for max
 * @param min         1 to max
 * @param max         1 or more
 * @param timeout_ms  0: looks once; -1: no bound of its own
 *
 * Threads: the owner.
 * Returns: how many, fewer than min when the time is over or nothing is left in flight; -EINVAL a bad
 * argument, or no timeout and nothing in flight; other errors as nvmfr_poll().
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_wait(struct nvmfr_qpair *qp, struct nvmfr_completion *out, unsigned int min,
					  unsigned int max, int timeout_ms);

/**
 * Submits I/Os and collects completions in one call, for lists longer than the queue pair is deep, and for
 * callers to whom a call is dear: it submits what there is room for, and more as completions make room, until
 * min completions are there. It then fills the room once more, so that the queue pair is busy until the next call.
 *
 * @param qp          the queue pair
 * @param ios         n of them; read only, free again on return
 * @param n           0: only collects
 * @param taken       receives how many of ios were submitted, in order, also on failure. Fewer than n: submit the
 *                    rest with the next call, which tells if the first of them is bad
 * @param out         room for max
 * @param min         1 to max; completions of earlier I/Os count
 * @param max         1 or more
 * @param timeout_ms  0: looks once; -1: no bound of its own
 *
 * Threads: the owner.
 * Returns: as nvmfr_wait(); if nothing was taken and nothing collected also as nvmfr_submit().
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_submit_and_wait(struct nvmfr_qpair *qp, const struct nvmfr_io *ios,
						     unsigned int n, unsigned int *taken,
						     struct nvmfr_completion *out, unsigned int min,
						     unsigned int max, int timeout_ms);

/**
 * Collects completions of all queue pairs of a group, without waiting: nvmfr_completion.qpair_data tells
 * whose. None that has completions is passed over for another. nvmfr_poll() on one of them is possible, too.
 *
 * @param group  the group
 * @param out    room for max
 * @param max    1 or more
 *
 * Threads: the owner.
 * Returns: how many; 0: none is there. A queue pair that was lost is no error here: the completions of what was in
 * flight come, then it is silent, and nvmfr_qpair_info() and its submits tell. -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_group_poll(struct nvmfr_group *group, struct nvmfr_completion *out,
						unsigned int max);

/**
 * Collects completions of a group: polls a little, then sleeps until min are there or the time is over. With
 * NVMFR_HOST_MANUAL it drives the host meanwhile.
 *
 * @param group       the group
 * @param out         room for max
 * @param min         1 to max
 * @param max         1 or more
 * @param timeout_ms  -1: no bound of its own
 *
 * Threads: the owner.
 * Returns: how many, fewer than min when the time is over or nothing is left in flight; -EINVAL a bad
 * argument, or no timeout and nothing in flight; other errors as nvmfr_group_poll().
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_group_wait(struct nvmfr_group *group, struct nvmfr_completion *out,
						unsigned int min, unsigned int max, int timeout_ms);

/**
 * Reads any byte range and waits for it, straight to its place. Where the controller takes several descriptors of
 * any length in a command (MSDBD, SGLS), what the first and last block have beside the range goes to a scratch
 * buffer by a descriptor of its own; else the unaligned head and tail are copied from there, and
 * nvmfr_qpair_info.bounced_bytes counts them. The fast path is nvmfr_read().
 *
 * @param qp               the queue pair, with no I/O in flight
 * @param nsid             namespace
 * @param offset_bytes     first byte of the namespace
 * @param buf              registered with NVMFR_ACCESS_TARGET, not a dma-buf
 * @param buf_offset_bytes first byte in buf
 * @param len_bytes        0 or more
 * @param timeout_ms       -1: no bound but io_timeout_ms
 *
 * Threads: the owner.
 * Returns: 0; -EBUSY I/O is in flight; -EREMOTEIO the controller refused (the sentence has its status);
 * -ETIMEDOUT the read is still going on, and so its completion will come from nvmfr_poll(); else as nvmfr_read().
 */
NVMFR_API int nvmfr_pread(struct nvmfr_qpair *qp, uint32_t nsid, uint64_t offset_bytes, struct nvmfr_buffer *buf,
			  uint64_t buf_offset_bytes, uint64_t len_bytes, int timeout_ms);

/* ---- paths ------------------------------------------------------------------------------------ */

/** Which of the usable paths an I/O takes. */
enum nvmfr_mpath_policy {
	NVMFR_MPATH_ROUND_ROBIN = 0, /**< each in turn */
	NVMFR_MPATH_LEAST_BYTES,     /**< the one with the fewest bytes in flight of this nvmfr_mqpair */
	NVMFR_MPATH_NUMA             /**< those whose device is on the calling thread's NUMA node, in turn; else all */
};

/** Options of a multipath handle. */
struct nvmfr_mpath_opts {
	size_t size;                 /**< sizeof this struct; set by init */
	uint32_t policy;             /**< enum nvmfr_mpath_policy */
	uint32_t retry;              /**< enum nvmfr_retry: what is issued again when its path failed it; flushes as reads */
	uint32_t no_path_timeout_ms; /**< an I/O waits so long for a path that can be used; 0: not at all */
	uint32_t flags;              /**< zero */
};

/** Options of a thread's queue pairs. */
struct nvmfr_mqpair_opts {
	size_t size;              /**< sizeof this struct; set by init */
	uint16_t depth;           /**< I/Os accepted and not completed, over all paths, 1 to 4095 */
	uint16_t max_descriptors; /**< as nvmfr_qpair_opts */
	uint32_t io_timeout_ms;   /**< as nvmfr_qpair_opts: a path that is silent for so long is lost */
	uint64_t qpair_data;      /**< comes back in each completion */
};

/** What is known of a thread's queue pairs. */
struct nvmfr_mqpair_info {
	size_t size;        /**< sizeof this struct, set by the caller */
	uint32_t in_flight; /**< I/Os accepted and not completed */
	uint32_t waiting;   /**< of those: waiting for a path */
	uint64_t reissued;  /**< I/Os that were issued again */
	uint32_t paths;     /**< for nvmfr_mqpair_path() */
	uint32_t reserved;  /**< zero */
};

/** A path of a thread. */
struct nvmfr_mqpair_path {
	size_t size;              /**< sizeof this struct, set by the caller */
	struct nvmfr_ctrl *ctrl;  /**< by way of this controller */
	uint64_t ios;             /**< I/Os sent this way */
	uint64_t bytes_in_flight; /**< of reads and writes */
	uint32_t in_flight;       /**< I/Os */
	uint32_t state;           /**< enum nvmfr_state of its queue pair */
	uint64_t bytes;           /**< of the I/Os sent this way */
	uint64_t refused;         /**< of them: the controller answered with an NVMe status */
	uint64_t aborted;         /**< of them: lost with a connection (-ECONNABORTED) */
	uint64_t timed_out;       /**< of them: -ETIMEDOUT */
	uint64_t reissued;        /**< of the last three: I/Os that were issued again, and not told */
};

/**
 * Fills opts with defaults: round robin, reads are retried, 30 s without a path.
 *
 * @param opts  to fill
 * @param size  sizeof *opts
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_mpath_opts_init(struct nvmfr_mpath_opts *opts, size_t size);

/**
 * Makes a multipath handle without paths. doc/paths.md has what it does.
 *
 * @param host  the host, which outlives it
 * @param opts  NULL: defaults
 * @param out   receives the handle, NULL on failure
 *
 * Threads: any.
 * Returns: 0; -EINVAL or -E2BIG bad options; -ENOMEM.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_mpath_create(struct nvmfr_host *host, const struct nvmfr_mpath_opts *opts,
						  struct nvmfr_mpath **out);

/**
 * Adds a controller: connecting, live, or being made anew. All are of one subsystem; a namespace is used by way of it
 * where it is the same one (NGUID, UUID, EUI-64) as under this NSID on the controllers before.
 *
 * @param mpath  the handle
 * @param ctrl   of the same host; nvmfr_disconnect() answers -EBUSY as long as it is in
 *
 * Threads: any.
 * Returns: 0; -EINVAL another host's, another subsystem, a discovery controller, or its namespaces are others;
 * -EEXIST it is in already; -ENOSPC 16 are; -ENOTCONN it is lost; -ENOMEM.
 */
NVMFR_API int nvmfr_mpath_add(struct nvmfr_mpath *mpath, struct nvmfr_ctrl *ctrl);

/**
 * Takes a controller out: nothing new goes this way. Its queue pairs end when what is in flight on them has, at a
 * submit or poll of their owners; until then nvmfr_disconnect() answers -EBUSY.
 *
 * @param mpath  the handle
 * @param ctrl   a controller of it
 *
 * Threads: any.
 * Returns: 0; -ENOENT it is not in; -EINVAL.
 */
NVMFR_API int nvmfr_mpath_remove(struct nvmfr_mpath *mpath, struct nvmfr_ctrl *ctrl);

/**
 * What is known of all paths, as JSON text: of each the controller with its state and the reason, ANA states by
 * namespace, and what all threads together sent and met this way since it was added, as in nvmfr_mqpair_path; how many
 * I/Os wait for a path. For logs and reports; names stay, new ones may come.
 *
 * @param mpath       the handle
 * @param text        receives the text, always terminated when text_bytes > 0
 * @param text_bytes  room in text; 0: none, to learn how much is needed
 *
 * Threads: any.
 * Returns: the bytes the whole text needs, its NUL included; more than text_bytes means that it was cut;
 * -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_mpath_dump(const struct nvmfr_mpath *mpath, char *text, size_t text_bytes);

/**
 * Ends a multipath handle; its controllers stay.
 *
 * @param mpath  the handle, or NULL
 *
 * Threads: any; before its host ends.
 * Returns: 0; -EBUSY threads have queue pairs of it, and nothing happened.
 */
NVMFR_API int nvmfr_mpath_destroy(struct nvmfr_mpath *mpath);

/**
 * Fills opts with defaults: depth 128, 4 descriptors, 30 s timeout.
 *
 * @param opts  to fill
 * @param size  sizeof *opts
 *
 * Threads: any.
 */
NVMFR_API void nvmfr_mqpair_opts_init(struct nvmfr_mqpair_opts *opts, size_t size);

/**
 * Makes a thread's queue pairs, one a path, and returns without waiting: I/Os wait for the first of them. Paths
 * that come later are taken up by submit and poll.
 *
 * @param mpath  the handle
 * @param opts   NULL: defaults
 * @param out    receives them, NULL on failure
 *
 * Threads: any; from then on it belongs to one thread at a time.
 * Returns: 0; -EINVAL or -E2BIG bad options; -EMFILE or -ENFILE no descriptor; -ENOMEM; -EOWNERDEAD.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_mqpair_create(struct nvmfr_mpath *mpath, const struct nvmfr_mqpair_opts *opts,
						   struct nvmfr_mqpair **out);

/**
 * Submits n I/Os, each by way of a path that can be used. Without one they are accepted, too, and wait.
 *
 * @param mq   the queue pairs
 * @param ios  n of them; free again on return. nsid: as on the controllers, where it is the same on all
 * @param n    1 or more
 *
 * Threads: the owner.
 * Returns: how many were taken; an error only if none was: -EAGAIN no room, else as nvmfr_submit().
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_mqpair_submit(struct nvmfr_mqpair *mq, const struct nvmfr_io *ios, unsigned int n);

/**
 * Collects completions, without waiting, and issues what waits. Each I/O has one completion: its last path's, or,
 * when there was none for no_path_timeout_ms, -EHOSTUNREACH (it was not done) or -ECONNABORTED (outcome unknown).
 *
 * @param mq   the queue pairs
 * @param out  room for max
 * @param max  1 or more
 *
 * Threads: the owner.
 * Returns: how many; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_mqpair_poll(struct nvmfr_mqpair *mq, struct nvmfr_completion *out,
						 unsigned int max);

/**
 * Collects completions as nvmfr_wait() does.
 *
 * @param mq          the queue pairs
 * @param out         room for max
 * @param min         1 to max
 * @param max         1 or more
 * @param timeout_ms  -1: no bound of its own
 *
 * Threads: the owner.
 * Returns: as nvmfr_wait().
 */
NVMFR_API NVMFR_MUST_CHECK int nvmfr_mqpair_wait(struct nvmfr_mqpair *mq, struct nvmfr_completion *out,
						 unsigned int min, unsigned int max, int timeout_ms);

/**
 * A descriptor to sleep on after nvmfr_mqpair_arm() answered 0: readable at the next completion of any path, when
 * the service has something to say, and when an I/O has waited long enough.
 *
 * @param mq  the queue pairs
 *
 * Threads: the owner.
 * Returns: the descriptor, owned by mq; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_mqpair_fd(const struct nvmfr_mqpair *mq);

/**
 * Asks for a wake-up. Poll until 0, arm, and only if it answers 0 sleep on the descriptor.
 *
 * @param mq  the queue pairs
 *
 * Threads: the owner.
 * Returns: as nvmfr_group_arm().
 */
NVMFR_API int nvmfr_mqpair_arm(struct nvmfr_mqpair *mq);

/**
 * What is known of a thread's queue pairs.
 *
 * @param mq    the queue pairs
 * @param info  with size set; filled as far as it goes
 *
 * Threads: the owner.
 * Returns: 0; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_mqpair_info(struct nvmfr_mqpair *mq, struct nvmfr_mqpair_info *info);

/**
 * What is known of a path.
 *
 * @param mq     the queue pairs
 * @param index  0 to nvmfr_mqpair_info.paths - 1
 * @param path   with size set; filled as far as it goes
 *
 * Threads: the owner.
 * Returns: 0; -ENOENT there are fewer; -EINVAL; -EOWNERDEAD in a forked child.
 */
NVMFR_API int nvmfr_mqpair_path(struct nvmfr_mqpair *mq, uint32_t index, struct nvmfr_mqpair_path *path);

/**
 * Ends a thread's queue pairs. I/Os in flight get no completion; when it returns no peer can touch their memory.
 *
 * @param mq  the queue pairs, or NULL
 *
 * Threads: the owner.
 */
NVMFR_API void nvmfr_mqpair_destroy(struct nvmfr_mqpair *mq);

#ifdef __cplusplus
}
#endif
#endif
