/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef NVMFR_WIRE_IDENTIFY_H
#define NVMFR_WIRE_IDENTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/bytes.h"

#define NVME_IDENTIFY_BYTES	 4096
#define NVME_ACTIVE_LIST_ENTRIES (NVME_IDENTIFY_BYTES / 4)

struct nvme_id_ctrl {
	le16 vid;
	le16 ssvid;
	char sn[20];
	char mn[40];
	char fr[8];
	uint8_t rab;
	uint8_t ieee[3];
	uint8_t cmic;
	uint8_t mdts;
	le16 cntlid;
	le32 ver;
	le32 rtd3r;
	le32 rtd3e;
	le32 oaes;
	le32 ctratt;
	le16 rrls;
	uint8_t rsvd102[9];
	uint8_t cntrltype;
	uint8_t fguid[16];
	le16 crdt[3];
	uint8_t rsvd134[119];
	uint8_t nvmsr;
	uint8_t vwci;
	uint8_t mec;
	le16 oacs;
	uint8_t acl;
	uint8_t aerl;
	uint8_t frmw;
	uint8_t lpa;
	uint8_t elpe;
	uint8_t npss;
	uint8_t avscc;
	uint8_t apsta;
	le16 wctemp;
	le16 cctemp;
	le16 mtfa;
	le32 hmpre;
	le32 hmmin;
	uint8_t tnvmcap[16];
	uint8_t unvmcap[16];
	le32 rpmbs;
	le16 edstt;
	uint8_t dsto;
	uint8_t fwug;
	le16 kas;
	le16 hctma;
	le16 mntmt;
	le16 mxtmt;
	le32 sanicap;
	le32 hmminds;
	le16 hmmaxd;
	le16 nsetidmax;
	le16 endgidmax;
	uint8_t anatt;
	uint8_t anacap;
	le32 anagrpmax;
	le32 nanagrpid;
	le32 pels;
	le16 domainid;
	uint8_t rsvd358[10];
	uint8_t megcap[16];
	uint8_t tmpthha;
	uint8_t rsvd385;
	le16 cqt;
	uint8_t rsvd388[124];
	uint8_t sqes;
	uint8_t cqes;
	le16 maxcmd;
	le32 nn;
	le16 oncs;
	le16 fuses;
	uint8_t fna;
	uint8_t vwc;
	le16 awun;
	le16 awupf;
	uint8_t nvscc;
	uint8_t nwpc;
	le16 acwu;
	le16 ocfs;
	le32 sgls;
	le32 mnan;
	uint8_t rsvd544[224];
	char subnqn[256];
	uint8_t rsvd1024[768];
	le32 ioccsz;
	le32 iorcsz;
	le16 icdoff;
	uint8_t fcatt;
	uint8_t msdbd;
	le16 ofcs;
	uint8_t rsvd1806[242];
	uint8_t psd[32][32];
	uint8_t vs[1024];
};

_Static_assert(sizeof(struct nvme_id_ctrl) == NVME_IDENTIFY_BYTES, "Identify Controller");
_Static_assert(offsetof(struct nvme_id_ctrl, ieee) == 73, "IEEE");
_Static_assert(offsetof(struct nvme_id_ctrl, mdts) == 77, "MDTS");
_Static_assert(offsetof(struct nvme_id_ctrl, cntlid) == 78, "CNTLID");
_Static_assert(offsetof(struct nvme_id_ctrl, oaes) == 92, "OAES");
_Static_assert(offsetof(struct nvme_id_ctrl, ctratt) == 96, "CTRATT");
_Static_assert(offsetof(struct nvme_id_ctrl, cntrltype) == 111, "CNTRLTYPE");
_Static_assert(offsetof(struct nvme_id_ctrl, crdt) == 128, "CRDT1");
_Static_assert(offsetof(struct nvme_id_ctrl, oacs) == 256, "OACS");
_Static_assert(offsetof(struct nvme_id_ctrl, aerl) == 259, "AERL");
_Static_assert(offsetof(struct nvme_id_ctrl, cctemp) == 268, "CCTEMP");
_Static_assert(offsetof(struct nvme_id_ctrl, kas) == 320, "KAS");
_Static_assert(offsetof(struct nvme_id_ctrl, anatt) == 342, "ANATT");
_Static_assert(offsetof(struct nvme_id_ctrl, anagrpmax) == 344, "ANAGRPMAX");
_Static_assert(offsetof(struct nvme_id_ctrl, nanagrpid) == 348, "NANAGRPID");
_Static_assert(offsetof(struct nvme_id_ctrl, cqt) == 386, "CQT");
_Static_assert(offsetof(struct nvme_id_ctrl, sqes) == 512, "SQES");
_Static_assert(offsetof(struct nvme_id_ctrl, maxcmd) == 514, "MAXCMD");
_Static_assert(offsetof(struct nvme_id_ctrl, nn) == 516, "NN");
_Static_assert(offsetof(struct nvme_id_ctrl, oncs) == 520, "ONCS");
_Static_assert(offsetof(struct nvme_id_ctrl, vwc) == 525, "VWC");
_Static_assert(offsetof(struct nvme_id_ctrl, acwu) == 532, "ACWU");
_Static_assert(offsetof(struct nvme_id_ctrl, sgls) == 536, "SGLS");
_Static_assert(offsetof(struct nvme_id_ctrl, mnan) == 540, "MNAN");
_Static_assert(offsetof(struct nvme_id_ctrl, subnqn) == 768, "SUBNQN");
_Static_assert(offsetof(struct nvme_id_ctrl, ioccsz) == 1792, "IOCCSZ");
_Static_assert(offsetof(struct nvme_id_ctrl, icdoff) == 1800, "ICDOFF");
_Static_assert(offsetof(struct nvme_id_ctrl, msdbd) == 1803, "MSDBD");
_Static_assert(offsetof(struct nvme_id_ctrl, ofcs) == 1804, "OFCS");
_Static_assert(offsetof(struct nvme_id_ctrl, psd) == 2048, "PSD0");

struct nvme_lbaf {
	le16 ms;
	uint8_t lbads;
	uint8_t rp;
};

#define NVME_LBAF_MAX 64

struct nvme_id_ns {
	le64 nsze;
	le64 ncap;
	le64 nuse;
	uint8_t nsfeat;
	uint8_t nlbaf; /* 0's based */
	uint8_t flbas;
	uint8_t mc;
	uint8_t dpc;
	uint8_t dps;
	uint8_t nmic;
	uint8_t rescap;
	uint8_t fpi;
	uint8_t dlfeat;
	le16 nawun;
	le16 nawupf;
	le16 nacwu;
	le16 nabsn;
	le16 nabo;
	le16 nabspf;
	le16 noiob;
	uint8_t nvmcap[16];
	le16 npwg;
	le16 npwa;
	le16 npdg;
	le16 npda;
	le16 nows;
	le16 mssrl;
	le32 mcl;
	uint8_t msrc;
	uint8_t kpios;
	uint8_t nulbaf;
	uint8_t rsvd83[9];
	le32 anagrpid;
	uint8_t rsvd96[3];
	uint8_t nsattr;
	le16 nvmsetid;
	le16 endgid;
	uint8_t nguid[16];
	uint8_t eui64[8];
	struct nvme_lbaf lbaf[NVME_LBAF_MAX];
	uint8_t vs[3712];
};

_Static_assert(sizeof(struct nvme_lbaf) == 4, "LBA format");
_Static_assert(sizeof(struct nvme_id_ns) == NVME_IDENTIFY_BYTES, "Identify Namespace");
_Static_assert(offsetof(struct nvme_id_ns, nsfeat) == 24, "NSFEAT");
_Static_assert(offsetof(struct nvme_id_ns, nlbaf) == 25, "NLBAF");
_Static_assert(offsetof(struct nvme_id_ns, dps) == 29, "DPS");
_Static_assert(offsetof(struct nvme_id_ns, dlfeat) == 33, "DLFEAT");
_Static_assert(offsetof(struct nvme_id_ns, noiob) == 46, "NOIOB");
_Static_assert(offsetof(struct nvme_id_ns, npwg) == 64, "NPWG");
_Static_assert(offsetof(struct nvme_id_ns, mssrl) == 74, "MSSRL");
_Static_assert(offsetof(struct nvme_id_ns, mcl) == 76, "MCL");
_Static_assert(offsetof(struct nvme_id_ns, msrc) == 80, "MSRC");
_Static_assert(offsetof(struct nvme_id_ns, nulbaf) == 82, "NULBAF");
_Static_assert(offsetof(struct nvme_id_ns, anagrpid) == 92, "ANAGRPID");
_Static_assert(offsetof(struct nvme_id_ns, nsattr) == 99, "NSATTR");
_Static_assert(offsetof(struct nvme_id_ns, nguid) == 104, "NGUID");
_Static_assert(offsetof(struct nvme_id_ns, eui64) == 120, "EUI64");
_Static_assert(offsetof(struct nvme_id_ns, lbaf) == 128, "LBAF0");
_Static_assert(offsetof(struct nvme_id_ns, vs) == 384, "vendor specific");

/* CNS 06h, NVM Command Set. The limits are powers of two of CAP.MPSMIN, 0 for none. */
struct nvme_id_nvm_ctrl {
	uint8_t vsl;
	uint8_t wzsl;
	uint8_t wusl;
	uint8_t dmrl;
	le32 dmrsl;
	le64 dmsl;
	uint8_t rsvd16[4080];
};

_Static_assert(sizeof(struct nvme_id_nvm_ctrl) == NVME_IDENTIFY_BYTES, "NVM Identify Controller");
_Static_assert(offsetof(struct nvme_id_nvm_ctrl, dmrsl) == 4, "DMRSL");
_Static_assert(offsetof(struct nvme_id_nvm_ctrl, dmsl) == 8, "DMSL");

/*
 * Header of one entry in the namespace identification descriptor list (CNS 03h); nidl bytes
 * follow.
 */
struct nvme_ns_desc {
	uint8_t nidt;
	uint8_t nidl;
	uint8_t rsvd2[2];
};

_Static_assert(sizeof(struct nvme_ns_desc) == 4, "namespace identification descriptor");

enum nvme_nidt {
	NVME_NIDT_EUI64 = 1,
	NVME_NIDT_NGUID = 2,
	NVME_NIDT_UUID = 3,
	NVME_NIDT_CSI = 4,
};

enum nvme_cmic {
	NVME_CMIC_MULTI_CTRL = 1 << 1,
	NVME_CMIC_ANA = 1 << 3,
};

enum nvme_cntrltype {
	NVME_CNTRLTYPE_NOT_REPORTED = 0,
	NVME_CNTRLTYPE_IO = 1,
	NVME_CNTRLTYPE_DISCOVERY = 2,
	NVME_CNTRLTYPE_ADMIN = 3,
};

enum nvme_ctratt {
	NVME_CTRATT_HOSTID_128 = 1 << 0,
	NVME_CTRATT_TBKAS = 1 << 6,
};

enum nvme_lpa {
	NVME_LPA_SMART_NS = 1 << 0, /* SMART of a namespace */
	NVME_LPA_EFFECTS = 1 << 1,
	NVME_LPA_EXTENDED = 1 << 2, /* Get Log Page knows offset and 32-bit length */
};

enum nvme_oncs {
	NVME_ONCS_COMPARE = 1 << 0,
	NVME_ONCS_WRITE_UNCORRECTABLE = 1 << 1,
	NVME_ONCS_DSM = 1 << 2,
	NVME_ONCS_WRITE_ZEROES = 1 << 3,
	NVME_ONCS_SAVE = 1 << 4, /* Save and Select of features */
	NVME_ONCS_RESERVATIONS = 1 << 5,
	NVME_ONCS_TIMESTAMP = 1 << 6,
	NVME_ONCS_VERIFY = 1 << 7,
	NVME_ONCS_COPY = 1 << 8,
};

enum nvme_fuses { NVME_FUSES_COMPARE_AND_WRITE = 1 << 0 };

enum nvme_rescap {
	NVME_RESCAP_TYPES = 0x7e, /* all six */
	NVME_RESCAP_IEKEY_13 = 1 << 7, /* Ignore Existing Key as of NVMe 1.3 */
};

enum nvme_vwc { NVME_VWC_PRESENT = 1 << 0 };

enum nvme_sgls {
	NVME_SGLS_SUPPORT_MASK = 3 << 0,
	NVME_SGLS_ANY_BYTES = 1, /* no alignment nor granularity is asked for; 2: dwords */
	NVME_SGLS_KEYED = 1 << 2,
	NVME_SGLS_OFFSET = 1 << 20, /* address field may be an offset into the capsule */
};

enum nvme_ofcs { NVME_OFCS_DISCONNECT = 1 << 0 };

enum nvme_dlfeat { NVME_DLFEAT_ZEROES = 1 }; /* bits 2:0: deallocated blocks read as zero */

enum nvme_nmic { NVME_NMIC_SHARED = 1 << 0 };

enum nvme_nsattr { NVME_NSATTR_WRITE_PROTECTED = 1 << 0 };

enum nvme_flbas {
	NVME_FLBAS_INDEX_LOW = 0x0f,
	NVME_FLBAS_EXTENDED = 1 << 4,
	NVME_FLBAS_INDEX_HIGH = 0x60,
};

enum nvme_dps {
	NVME_DPS_PI_TYPE = 0x07,
	NVME_DPS_PI_FIRST = 1 << 3,
};

/* Identify Controller in host order; spec spelling means the wire encoding. */
struct ctrl_data {
	char sn[21];
	char mn[41];
	char fr[9];
	char subnqn[257];
	uint16_t vid;
	uint16_t ssvid;
	uint16_t cntlid;
	uint32_t ver;
	uint32_t oaes;
	uint32_t ctratt;
	uint8_t cmic;
	uint8_t mdts;
	uint8_t cntrltype;
	uint8_t acl;
	uint8_t aerl;
	uint8_t lpa;
	uint8_t elpe;
	uint8_t vwc;
	uint8_t fna;
	uint16_t crdt[3]; /* command retry delays, units of 100 ms */
	uint16_t oacs;
	uint16_t kas; /* units of 100 ms; 0: no keep-alive */
	uint16_t cqt; /* ms */
	uint16_t maxcmd;
	uint16_t oncs;
	uint16_t fuses;
	uint16_t awun;
	uint16_t awupf;
	uint16_t acwu;
	uint8_t anatt;
	uint8_t anacap;
	uint32_t anagrpmax;
	uint32_t nanagrpid;
	uint32_t nn;
	uint32_t mnan;
	uint32_t sgls;
	uint32_t ioccsz; /* units of 16 bytes */
	uint32_t iorcsz;
	uint16_t icdoff;
	uint8_t fcatt;
	uint8_t msdbd;
	uint16_t ofcs;
};

struct ns_data {
	uint64_t nsze; /* blocks */
	uint64_t ncap;
	uint64_t nuse;
	uint32_t lba_shift; /* 9 to 16 */
	uint32_t block_bytes; /* data of one block, 1 << lba_shift */
	uint32_t ms; /* metadata bytes a block */
	uint32_t xfer_bytes; /* one block as transferred: data, and metadata when it is extended */
	bool extended; /* metadata follows each block's data; only with ms */
	bool pi_first; /* protection information leads the metadata, else ends it */
	bool shared; /* other controllers may reach it too */
	bool write_protected;
	uint8_t pi_type; /* 0: none, 1 to 3 */
	uint8_t nsfeat;
	uint8_t dlfeat;
	uint8_t mc;
	uint16_t nawun;
	uint16_t nawupf;
	uint16_t noiob; /* optimal I/O boundary in blocks; 0: none */
	uint16_t npwg;
	uint16_t npwa;
	uint16_t npdg;
	uint16_t npda;
	uint16_t nows;
	uint16_t nvmsetid;
	uint16_t mssrl; /* Copy: blocks of a source range; 0: not told */
	uint32_t mcl; /* and of all; 0: not told */
	uint8_t msrc; /* 0's based */
	uint32_t anagrpid;
	uint8_t nguid[16];
	uint8_t eui64[8];
};

struct ns_ids {
	uint8_t eui64[8];
	uint8_t nguid[16];
	uint8_t uuid[16];
	uint8_t csi; /* command set, 0 is NVM */
	bool has_eui64;
	bool has_nguid;
	bool has_uuid;
	bool has_csi;
};

/* All pages are NVME_IDENTIFY_BYTES long. -errno with a sentence; out is then undefined. */
int nvme_parse_ctrl(const void *page, struct ctrl_data *out);

/* -ENOENT: inactive; -EPROTO: impossible values; -EOPNOTSUPP: blocks larger than 64 KiB. */
int nvme_parse_ns(const void *page, struct ns_data *out);

/*
 * Unknown types and known ones of a wrong length are skipped; a list that runs over its end
 * stops.
 */
int nvme_parse_ns_descs(const void *page, size_t bytes, struct ns_ids *out);

/*
 * NSIDs of one active list page, at most max of them. Returns their count; -EPROTO unless they
 * ascend strictly, starting above after, which also bounds how many pages a peer can make us
 * read.
 */
int nvme_parse_active_list(const void *page, uint32_t after, uint32_t *out, unsigned int max);

#endif
