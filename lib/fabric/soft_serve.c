/* SPDX-License-Identifier: BSD-3-Clause */
/* A pass over an endpoint: receive commands, execute what is due, answer. */
#include "fabric/soft.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- passes ----------------------------------------------------------------------------------- */

static void pass_begin(struct soft_ep *ep)
{
	uint64_t pass = atomic_load_explicit(&ep->pass, memory_order_relaxed);

	atomic_store(&ep->pass, pass + 1);
}

static void pass_end(struct soft_ep *ep)
{
	uint64_t pass = atomic_load_explicit(&ep->pass, memory_order_relaxed);

	atomic_store_explicit(&ep->pass, pass + 1, memory_order_release);
}

void nvmfr__soft_wait_pass(struct soft_ep *ep)
{
	uint64_t pass = atomic_load(&ep->pass);

	while (pass % 2 && atomic_load(&ep->pass) == pass)
		sched_yield();
}

void nvmfr__soft_quiesce(struct nvmfr_soft_target *target)
{
	for (struct soft_ep *ep = target->eps; ep; ep = ep->target_next)
		nvmfr__soft_wait_pass(ep);
}

/* ---- violations ------------------------------------------------------------------------------- */

void nvmfr__soft_violation(struct soft_ep *ep, const char *fmt, ...)
{
	struct nvmfr_soft_target *target = ep->target;
	char text[SOFT_VIOLATION_TEXT];
	int used = snprintf(text, sizeof(text), "queue %u: ", ep->qid);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + used, sizeof(text) - (size_t)used, fmt, args);
	va_end(args);
	nvmfr__soft_count(&ep->counts.violations, 1);
	pthread_mutex_lock(&target->plan_lock);
	memcpy(target->violation, text, sizeof(text));
	atomic_store_explicit(&target->violation_unlogged, true, memory_order_relaxed);
	pthread_mutex_unlock(&target->plan_lock);
}

void nvmfr__soft_log_violation(struct nvmfr_soft_target *target)
{
	char text[SOFT_VIOLATION_TEXT];

	if (!atomic_exchange(&target->violation_unlogged, false))
		return;
	nvmfr__soft_last_violation(target, text, sizeof(text));
	nvmfr__log(target->fh->log, NVMFR__LOG_WARN, "soft target '%s': violation: %s", target->name,
		   text);
}

/* ---- receiving -------------------------------------------------------------------------------- */

static const struct nvme_sqe *sqe_at(const struct soft_ep *ep, uint32_t position)
{
	return (const struct nvme_sqe *)(ep->ep.capsules + (size_t)position * FAB_CAPSULE_BYTES);
}

static uint32_t next_position(uint32_t position, uint32_t positions)
{
	return position + 1 == positions ? 0 : position + 1;
}

static void fatal(struct soft_ep *ep, const char *what)
{
	ep->drop_all = true;
	nvmfr__soft_ep_fail(ep, true, "the target dropped the connection: %s", what);
}

static void check_outstanding(struct soft_ep *ep)
{
	uint16_t maxcmd = ep->target->opts.maxcmd;

	if (ep->outstanding > atomic_load_explicit(&ep->counts.max_outstanding, memory_order_relaxed))
		atomic_store_explicit(&ep->counts.max_outstanding, ep->outstanding,
				      memory_order_relaxed);
	if (unlikely(ep->outstanding > ep->sqsize)) {
		nvmfr__soft_violation(ep, "%u commands outstanding, SQSIZE %u allows %u",
				      ep->outstanding, ep->sqsize, ep->sqsize);
		fatal(ep, "submission queue overrun");
	} else if (unlikely(ep->qid && maxcmd && ep->outstanding > maxcmd)) {
		nvmfr__soft_violation(ep, "%u commands outstanding, MAXCMD is %u", ep->outstanding,
				      maxcmd);
	}
}

static void receive_one(struct soft_ep *ep)
{
	uint16_t cid = from_le16(sqe_at(ep, ep->receive_position)->cid);
	uint64_t bit = UINT64_C(1) << cid % 64;

	ep->received++;
	ep->receive_position = next_position(ep->receive_position, ep->ep.send_positions);
	nvmfr__soft_count(&ep->counts.commands, 1);
	if (unlikely(cid == UINT16_MAX))
		nvmfr__soft_violation(ep, "CID FFFFh is reserved");
	if (unlikely(ep->cids[cid / 64] & bit)) {
		nvmfr__soft_violation(ep, "CID %04xh is outstanding already", cid);
		fatal(ep, "command identifier conflict");
		return;
	}
	ep->cids[cid / 64] |= bit;
	ep->outstanding++;
	check_outstanding(ep);
}

/* ---- answering -------------------------------------------------------------------------------- */

static void retire_cid(struct soft_ep *ep, uint16_t cid)
{
	uint64_t bit = UINT64_C(1) << cid % 64;

	if (ep->cids[cid / 64] & bit) {
		ep->cids[cid / 64] &= ~bit;
		ep->outstanding--;
	}
}

static void publish_produced(struct soft_ep *ep, uint64_t produced)
{
	if (ep->threaded)
		atomic_store(&ep->produced, produced);
	else
		atomic_store_explicit(&ep->produced, produced, memory_order_release);
}

static void send_response(struct soft_ep *ep, const struct nvme_cqe *cqe)
{
	uint64_t produced = atomic_load_explicit(&ep->produced, memory_order_relaxed);
	uint32_t position = ep->response_position;

	if (unlikely(nvmfr__soft_failed(ep)))
		return;
	if (unlikely(produced == atomic_load_explicit(&ep->recv_posted, memory_order_acquire))) {
		nvmfr__soft_violation(ep, "no receive is posted for a response");
		nvmfr__soft_ep_fail(ep, true, "the target's response found no receive posted (RNR)");
		return;
	}
	memcpy(ep->ep.responses + (size_t)position * FAB_RESPONSE_BYTES, cqe, sizeof(*cqe));
	ep->response_position = next_position(position, ep->ep.recv_positions);
	publish_produced(ep, produced + 1);
}

static struct nvme_cqe make_cqe(struct soft_ep *ep, uint16_t cid, uint64_t result, uint16_t status)
{
	return (struct nvme_cqe){
		.result = to_le64(result),
		.sqhd = to_le16(ep->no_flow_control ? NVME_SQHD_NO_FLOW_CONTROL : ep->sqhd),
		.sqid = to_le16(ep->qid),
		.cid = to_le16(cid),
		.status = to_le16((uint16_t)(status << 1)),
	};
}

void nvmfr__soft_respond(struct soft_ep *ep, uint16_t cid, uint64_t result, uint16_t status)
{
	struct nvme_cqe cqe = make_cqe(ep, cid, result, status);

	retire_cid(ep, cid);
	send_response(ep, &cqe);
}

static void delay_response(struct soft_ep *ep, const struct nvme_cqe *cqe, uint64_t us)
{
	if (ep->n_delayed == ep->ep.recv_positions) {
		send_response(ep, cqe);
		return;
	}
	ep->delayed[ep->n_delayed++] = (struct soft_delayed){
		.due_ns = nvmfr__soft_now(ep->target) + us * 1000, .cqe = *cqe
	};
}

/* To its end no later than the answer comes. */
static void begin_linger(const struct soft_cmd *cmd, uint64_t us)
{
	struct soft_ep *ep = cmd->ep;

	if (ep->linger || ep->qid == 0 || cmd->status || cmd->sqe->opcode != NVME_IO_READ ||
	    nvme_sgl_type(&cmd->sqe->dptr) != NVME_SGL_KEYED)
		return;
	ep->linger = malloc(sizeof(*ep->linger));
	if (ep->linger)
		*ep->linger = (struct soft_linger){ .until_ns = nvmfr__soft_now(ep->target) + us * 1000,
						    .sqe = *cmd->sqe };
}

static void linger(struct soft_ep *ep, uint64_t now)
{
	struct soft_cmd cmd = { .ep = ep, .sqe = &ep->linger->sqe };

	nvmfr__soft_read_again(&cmd);
	if (now < ep->linger->until_ns)
		return;
	free(ep->linger);
	ep->linger = NULL;
}

static uint32_t first_delayed(const struct soft_ep *ep)
{
	uint32_t first = 0;

	for (uint32_t i = 1; i < ep->n_delayed; i++)
		if (ep->delayed[i].due_ns < ep->delayed[first].due_ns)
			first = i;
	return first;
}

static void send_delayed(struct soft_ep *ep, uint64_t now)
{
	while (ep->n_delayed) {
		uint32_t first = first_delayed(ep);
		struct nvme_cqe cqe = ep->delayed[first].cqe;

		if (ep->delayed[first].due_ns > now)
			return;
		/* In order, for those that are due at the same time. */
		memmove(&ep->delayed[first], &ep->delayed[first + 1],
			(--ep->n_delayed - first) * sizeof(*ep->delayed));
		retire_cid(ep, from_le16(cqe.cid));
		send_response(ep, &cqe);
	}
}

/* ---- executing -------------------------------------------------------------------------------- */

static void execute(struct soft_cmd *cmd)
{
	struct soft_ep *ep = cmd->ep;
	uint8_t opcode = cmd->sqe->opcode;

	if (unlikely(cmd->sqe->flags != NVME_FLAGS_PSDT_SGL || ep->fused_waits) && ep->qid &&
	    ep->ctrl && (cmd->sqe->flags & ~NVME_FLAGS_FUSE_MASK) == NVME_FLAGS_PSDT_SGL) {
		nvmfr__soft_fused(cmd);
	} else if (unlikely(cmd->sqe->flags != NVME_FLAGS_PSDT_SGL)) {
		nvmfr__soft_violation(ep, "opcode %02xh: flags %02xh, fabrics take SGLs only", opcode,
				      cmd->sqe->flags);
		nvmfr__soft_refuse(cmd, NVME_ST_INVALID_FIELD);
	} else if (unlikely(opcode == NVME_FABRICS_OPCODE)) {
		nvmfr__soft_fabrics(cmd);
	} else if (unlikely(!ep->ctrl)) {
		nvmfr__soft_violation(ep, "opcode %02xh before Connect", opcode);
		nvmfr__soft_refuse(cmd, NVME_ST_SEQUENCE_ERROR);
	} else if (ep->qid) {
		nvmfr__soft_io(cmd);
	} else {
		nvmfr__soft_admin(cmd);
	}
}

/* What a fault does in place of the command. */
static void misbehave(struct soft_cmd *cmd, const struct nvmfr_soft_fault *fault)
{
	struct soft_ep *ep = cmd->ep;

	switch (fault->kind) {
	case NVMFR_SOFT_FAULT_STATUS:
		cmd->status = (uint16_t)(fault->value & 0x7fff);
		return;
	case NVMFR_SOFT_FAULT_RESULT:
		cmd->result = fault->value;
		return;
	case NVMFR_SOFT_FAULT_STUCK:
		atomic_store(&ep->stuck, SOFT_STUCK | cmd->cid);
		cmd->held = true;
		return;
	case NVMFR_SOFT_FAULT_SILENCE:
		cmd->held = true;
		return;
	case NVMFR_SOFT_FAULT_NOT_READY:
		ep->not_ready_ns = nvmfr__soft_now(ep->target) + fault->value * 1000;
		cmd->wait = true;
		return;
	case NVMFR_SOFT_FAULT_DISCONNECT:
		nvmfr__soft_ep_fail(ep, true, "the target closed the connection");
		return;
	case NVMFR_SOFT_FAULT_DISCONNECT_ALL:
		ep->drop_all = true;
		nvmfr__soft_ep_fail(ep, true, "the target closed every connection");
		return;
	case NVMFR_SOFT_FAULT_QP_ERROR:
		nvmfr__soft_ep_fail(ep, false, "a SEND failed: transport retry counter exceeded");
		return;
	default:
		execute(cmd);
	}
}

static void answer(struct soft_cmd *cmd, const struct nvmfr_soft_fault *fault)
{
	struct soft_ep *ep = cmd->ep;
	struct nvme_cqe cqe = make_cqe(ep, cmd->cid, cmd->result, cmd->status);

	if (fault->kind == NVMFR_SOFT_FAULT_LINGER)
		begin_linger(cmd, fault->value);
	if (fault->kind == NVMFR_SOFT_FAULT_DELAY || fault->kind == NVMFR_SOFT_FAULT_LINGER) {
		delay_response(ep, &cqe, fault->value);
		return;
	}
	if (fault->kind == NVMFR_SOFT_FAULT_SHORT) {
		nvmfr__soft_ep_fail(ep, false, "a response of %u bytes arrived, a CQE has %d",
				    (unsigned int)fault->value, FAB_RESPONSE_BYTES);
		return;
	}
	retire_cid(ep, cmd->cid);
	if (fault->kind == NVMFR_SOFT_FAULT_WRONG_CID)
		cqe.cid = to_le16((uint16_t)(cmd->cid ^ fault->value));
	send_response(ep, &cqe);
	if (fault->kind == NVMFR_SOFT_FAULT_DUPLICATE)
		send_response(ep, &cqe);
}

static void hold_sends(struct soft_ep *ep, uint64_t us)
{
	uint64_t until = nvmfr__soft_now(ep->target) + us * 1000;

	ep->hold_ns = ep->holding ? nvmfr__max_u64(ep->hold_ns, until) : until;
	ep->holding = true;
}

/* The capsule is the initiator's again once its SEND is published as complete. */
static void take_done(struct soft_ep *ep)
{
	ep->taken++;
	ep->take_position = next_position(ep->take_position, ep->ep.send_positions);
	ep->sqhd = ep->sqhd >= ep->sqsize ? 0 : (uint16_t)(ep->sqhd + 1);
	if (likely(!ep->holding && !nvmfr__soft_failed(ep)))
		atomic_store_explicit(&ep->sent, ep->taken,
				      ep->threaded ? memory_order_seq_cst : memory_order_release);
}

/* False: it waits. */
static bool take_one(struct soft_ep *ep)
{
	const struct nvme_sqe *sqe = sqe_at(ep, ep->take_position);
	struct nvmfr_soft_fault fault = { .kind = 0 };
	struct soft_cmd cmd = {
		.ep = ep, .sqe = sqe, .position = ep->take_position, .cid = from_le16(sqe->cid)
	};

	if (ep->sends[cmd.position].pieces == 2 && !nvmfr__soft_capsule(&cmd)) {
		take_done(ep);
		return true;
	}
	if (likely(!atomic_load_explicit(&ep->target->n_faults, memory_order_relaxed))) {
		execute(&cmd);
	} else {
		fault = nvmfr__soft_fault_match(ep->target, ep->qid, sqe);
		cmd.fault = &fault;
		misbehave(&cmd, &fault);
	}
	if (unlikely(cmd.wait))
		return false;
	if (unlikely(fault.kind == NVMFR_SOFT_FAULT_EARLY))
		hold_sends(ep, fault.value);
	take_done(ep);
	if (unlikely(cmd.held || nvmfr__soft_failed(ep)))
		return true;
	answer(&cmd, &fault);
	if (unlikely(cmd.close))
		nvmfr__soft_ep_fail(ep, true, "the controller ended the queue after Disconnect");
	return true;
}

static void release_held(struct soft_ep *ep, uint64_t now)
{
	if (ep->holding && ep->hold_ns <= now) {
		ep->holding = false;
		atomic_store(&ep->sent, ep->taken);
	}
	send_delayed(ep, now);
}

static void answer_aborted(struct soft_ep *ep)
{
	uint16_t cid = (uint16_t)atomic_exchange(&ep->stuck, 0);

	nvmfr__soft_respond(ep, cid, 0, NVME_ST_ABORT_REQUESTED);
}

bool nvmfr__soft_pass(struct soft_ep *ep)
{
	uint64_t posted = atomic_load_explicit(&ep->posted, memory_order_acquire);
	bool timed = ep->latency_ns || ep->n_delayed || ep->holding || ep->not_ready_ns || ep->linger;
	uint64_t now = timed ? nvmfr__soft_now(ep->target) : 0;
	int budget = SOFT_PASS_COMMANDS;

	pass_begin(ep);
	while (ep->received != posted && !nvmfr__soft_failed(ep))
		receive_one(ep);
	if (unlikely(ep->linger))
		linger(ep, now);
	if (unlikely((ep->n_delayed || ep->holding) && !nvmfr__soft_failed(ep)))
		release_held(ep, now);
	if (unlikely(nvmfr__soft_aborts(ep)))
		answer_aborted(ep);
	if (ep->taken != posted && ep->ctrl)
		atomic_store_explicit(&ep->ctrl->traffic, true, memory_order_relaxed);
	if (unlikely(ep->not_ready_ns > now))
		budget = 0;
	else
		ep->not_ready_ns = 0;
	while (ep->taken != posted && !nvmfr__soft_failed(ep) && budget-- > 0) {
		if (ep->latency_ns && ep->due_ns[ep->take_position] > now)
			break;
		if (unlikely(!take_one(ep)))
			break;
	}
	pass_end(ep);
	if (ep->taken == posted || ep->not_ready_ns || nvmfr__soft_failed(ep))
		return false;
	return !ep->latency_ns || ep->due_ns[ep->take_position] <= now;
}

uint64_t nvmfr__soft_next_due(const struct soft_ep *ep, uint64_t posted)
{
	uint64_t due = SOFT_NEVER;

	if (posted != ep->taken)
		due = nvmfr__max_u64(ep->not_ready_ns, ep->latency_ns ? ep->due_ns[ep->take_position] : 0);
	if (nvmfr__soft_aborts(ep))
		due = 0;
	if (ep->holding)
		due = nvmfr__min_u64(due, ep->hold_ns);
	if (ep->n_delayed)
		due = nvmfr__min_u64(due, ep->delayed[first_delayed(ep)].due_ns);
	return due;
}
