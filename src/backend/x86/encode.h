/* encode.h -- instructions to bytes: VEX for the AVX2 tier, EVEX for the AVX-512 tier, and the few scalar instructions
 * that loops and addresses need.
 *
 * Owns a growing buffer of code, the constant pool behind it and the jumps between. Knows nothing of kernels. After an
 * allocation failure it swallows everything and `failed` says so. */
#ifndef WEFT_X86_ENCODE_H
#define WEFT_X86_ENCODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpr { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15 };

/* X(ID, name, map, pp, w, opcode, flags). map 1: 0F, 2: 0F38, 3: 0F3A. pp 0: none, 1: 66, 2: F3, 3: F2. A row for 32-bit
 * elements is followed by its row for 64-bit elements where both exist, so that ID + 1 is the wider one. */
#define X86_ROWS(X)                                                                              \
  X(MOVUPS, "vmovups", 1, 0, 0, 0x10, NO_BC | TWO) X(MOVUPD, "vmovupd", 1, 1, 1, 0x10, NO_BC | TWO) \
  X(MOVUPS_TO, "vmovups", 1, 0, 0, 0x11, NO_BC | TO) X(MOVUPD_TO, "vmovupd", 1, 1, 1, 0x11, NO_BC | TO) \
  X(MOVNTPS_TO, "vmovntps", 1, 0, 0, 0x2B, NO_BC | TO)                                           \
  X(MASKMOVPS, "vmaskmovps", 2, 1, 0, 0x2C, VEX) X(MASKMOVPD, "vmaskmovpd", 2, 1, 0, 0x2D, VEX)  \
  X(MASKMOVPS_TO, "vmaskmovps", 2, 1, 0, 0x2E, VEX | TO) X(MASKMOVPD_TO, "vmaskmovpd", 2, 1, 0, 0x2F, VEX | TO) \
  X(BROADCASTSS, "vbroadcastss", 2, 1, 0, 0x18, NO_BC | TWO) X(BROADCASTSD, "vbroadcastsd", 2, 1, 1, 0x19, NO_BC | VW0 | TWO) \
  X(PBROADCASTD, "vpbroadcastd", 2, 1, 0, 0x58, NO_BC | TWO) X(PBROADCASTQ, "vpbroadcastq", 2, 1, 1, 0x59, NO_BC | VW0 | TWO) \
  X(MOVSS_TO, "vmovss", 1, 2, 0, 0x11, NO_BC | TO) X(MOVSD_TO, "vmovsd", 1, 3, 1, 0x11, NO_BC | TO) \
  X(MOVD, "vmovd", 1, 1, 0, 0x6E, NO_BC | TWO) X(MOVQ, "vmovq", 1, 2, 1, 0x7E, NO_BC | TWO)       \
  X(MOVD_TO, "vmovd", 1, 1, 0, 0x7E, NO_BC | TO) X(MOVQ_TO, "vmovq", 1, 1, 1, 0xD6, NO_BC | TO)   \
  X(ADDPS, "vaddps", 1, 0, 0, 0x58, 0) X(ADDPD, "vaddpd", 1, 1, 1, 0x58, 0)                      \
  X(SUBPS, "vsubps", 1, 0, 0, 0x5C, 0) X(SUBPD, "vsubpd", 1, 1, 1, 0x5C, 0)                      \
  X(MULPS, "vmulps", 1, 0, 0, 0x59, 0) X(MULPD, "vmulpd", 1, 1, 1, 0x59, 0)                      \
  X(DIVPS, "vdivps", 1, 0, 0, 0x5E, 0) X(DIVPD, "vdivpd", 1, 1, 1, 0x5E, 0)                      \
  X(MINPS, "vminps", 1, 0, 0, 0x5D, 0) X(MINPD, "vminpd", 1, 1, 1, 0x5D, 0)                      \
  X(MAXPS, "vmaxps", 1, 0, 0, 0x5F, 0) X(MAXPD, "vmaxpd", 1, 1, 1, 0x5F, 0)                      \
  X(SQRTPS, "vsqrtps", 1, 0, 0, 0x51, TWO) X(SQRTPD, "vsqrtpd", 1, 1, 1, 0x51, TWO)              \
  X(FMA132PS, "vfmadd132ps", 2, 1, 0, 0x98, 0) X(FMA132PD, "vfmadd132pd", 2, 1, 1, 0x98, 0)      \
  X(FMA213PS, "vfmadd213ps", 2, 1, 0, 0xA8, 0) X(FMA213PD, "vfmadd213pd", 2, 1, 1, 0xA8, 0)      \
  X(FMA231PS, "vfmadd231ps", 2, 1, 0, 0xB8, 0) X(FMA231PD, "vfmadd231pd", 2, 1, 1, 0xB8, 0)      \
  X(FNMA231PS, "vfnmadd231ps", 2, 1, 0, 0xBC, 0) X(RSQRTPS, "vrsqrtps", 1, 0, 0, 0x52, VEX | TWO) \
  X(DPBF16PS, "vdpbf16ps", 2, 2, 0, 0x52, EVEX) X(DPWSSD, "vpdpwssd", 2, 1, 0, 0x52, EVEX)        \
  X(DPBUSD, "vpdpbusd", 2, 1, 0, 0x50, EVEX)                                                     \
  X(PAND, "vpand", 1, 1, 0, 0xDB, 0) X(PANDQ, "vpand", 1, 1, 1, 0xDB, 0)                         \
  X(PANDN, "vpandn", 1, 1, 0, 0xDF, 0) X(PANDNQ, "vpandn", 1, 1, 1, 0xDF, 0)                     \
  X(POR, "vpor", 1, 1, 0, 0xEB, 0) X(PORQ, "vpor", 1, 1, 1, 0xEB, 0)                             \
  X(PXOR, "vpxor", 1, 1, 0, 0xEF, 0) X(PXORQ, "vpxor", 1, 1, 1, 0xEF, 0)                         \
  X(PADDD, "vpaddd", 1, 1, 0, 0xFE, 0) X(PADDQ, "vpaddq", 1, 1, 1, 0xD4, 0)                      \
  X(PSUBD, "vpsubd", 1, 1, 0, 0xFA, 0) X(PSUBQ, "vpsubq", 1, 1, 1, 0xFB, 0)                      \
  X(PSUBW, "vpsubw", 1, 1, 0, 0xF9, NO_BC)                                                       \
  X(PMULLD, "vpmulld", 2, 1, 0, 0x40, 0) X(PMULLQ, "vpmullq", 2, 1, 1, 0x40, EVEX)               \
  X(PMULUDQ, "vpmuludq", 1, 1, 1, 0xF4, 0) X(PMULDQ, "vpmuldq", 2, 1, 1, 0x28, 0)                \
  X(PMINSD, "vpminsd", 2, 1, 0, 0x39, 0) X(PMINSQ, "vpminsq", 2, 1, 1, 0x39, EVEX)               \
  X(PMAXSD, "vpmaxsd", 2, 1, 0, 0x3D, 0) X(PMAXSQ, "vpmaxsq", 2, 1, 1, 0x3D, EVEX)               \
  X(PMINUD, "vpminud", 2, 1, 0, 0x3B, 0) X(PMINUQ, "vpminuq", 2, 1, 1, 0x3B, EVEX)               \
  X(PMAXUD, "vpmaxud", 2, 1, 0, 0x3F, 0) X(PMAXUQ, "vpmaxuq", 2, 1, 1, 0x3F, EVEX)               \
  X(PCMPEQD, "vpcmpeqd", 1, 1, 0, 0x76, 0) X(PCMPEQQ, "vpcmpeqq", 2, 1, 1, 0x29, 0)              \
  X(PCMPGTD, "vpcmpgtd", 1, 1, 0, 0x66, 0) X(PCMPGTQ, "vpcmpgtq", 2, 1, 1, 0x37, 0)              \
  X(PCMPD, "vpcmpd", 3, 1, 0, 0x1F, IMM | EVEX | KD) X(PCMPQ, "vpcmpq", 3, 1, 1, 0x1F, IMM | EVEX | KD) \
  X(PCMPUD, "vpcmpud", 3, 1, 0, 0x1E, IMM | EVEX | KD) X(PCMPUQ, "vpcmpuq", 3, 1, 1, 0x1E, IMM | EVEX | KD) \
  X(CMPPS, "vcmpps", 1, 0, 0, 0xC2, IMM | KD) X(CMPPD, "vcmppd", 1, 1, 1, 0xC2, IMM | KD)        \
  X(PSLLVD, "vpsllvd", 2, 1, 0, 0x47, 0) X(PSLLVQ, "vpsllvq", 2, 1, 1, 0x47, 0)                  \
  X(PSRLVD, "vpsrlvd", 2, 1, 0, 0x45, 0) X(PSRLVQ, "vpsrlvq", 2, 1, 1, 0x45, 0)                  \
  X(PSRAVD, "vpsravd", 2, 1, 0, 0x46, 0) X(PSRAVQ, "vpsravq", 2, 1, 1, 0x46, EVEX)               \
  X(PSHIFTD, "vpshiftd", 1, 1, 0, 0x72, IMM | DIGIT) X(PSHIFTQ, "vpshiftq", 1, 1, 1, 0x73, IMM | DIGIT) \
  X(ROUNDPS, "vroundps", 3, 1, 0, 0x08, IMM | TWO) X(ROUNDPD, "vroundpd", 3, 1, 1, 0x09, IMM | TWO) \
  X(BLENDVPS, "vblendvps", 3, 1, 0, 0x4A, IMM | VEX) X(BLENDVPD, "vblendvpd", 3, 1, 0, 0x4B, IMM | VEX) \
  X(BLENDMPS, "vblendmps", 2, 1, 0, 0x65, EVEX) X(BLENDMPD, "vblendmpd", 2, 1, 1, 0x65, EVEX)    \
  X(SCALEFPS, "vscalefps", 2, 1, 0, 0x2C, EVEX) X(SCALEFPD, "vscalefpd", 2, 1, 1, 0x2C, EVEX)    \
  X(RANGEPS, "vrangeps", 3, 1, 0, 0x50, IMM | EVEX) X(RANGEPD, "vrangepd", 3, 1, 1, 0x50, IMM | EVEX) \
  X(CVTDQ2PS, "vcvtdq2ps", 1, 0, 0, 0x5B, TWO) X(CVTTPS2DQ, "vcvttps2dq", 1, 2, 0, 0x5B, TWO)    \
  X(CVTUDQ2PS, "vcvtudq2ps", 1, 3, 0, 0x7A, EVEX | TWO) X(CVTTPS2UDQ, "vcvttps2udq", 1, 0, 0, 0x78, EVEX | TWO) \
  X(CVTPS2PD, "vcvtps2pd", 1, 0, 0, 0x5A, TWO | NO_BC) X(CVTPD2PS, "vcvtpd2ps", 1, 1, 1, 0x5A, TWO | NO_BC) \
  X(CVTDQ2PD, "vcvtdq2pd", 1, 2, 0, 0xE6, TWO | NO_BC) X(CVTTPD2DQ, "vcvttpd2dq", 1, 1, 1, 0xE6, TWO | NO_BC) \
  X(CVTQQ2PS, "vcvtqq2ps", 1, 0, 1, 0x5B, EVEX | TWO | NO_BC) X(CVTQQ2PD, "vcvtqq2pd", 1, 2, 1, 0xE6, EVEX | TWO) \
  X(CVTUQQ2PS, "vcvtuqq2ps", 1, 3, 1, 0x7A, EVEX | TWO | NO_BC) X(CVTUQQ2PD, "vcvtuqq2pd", 1, 2, 1, 0x7A, EVEX | TWO) \
  X(CVTUDQ2PD, "vcvtudq2pd", 1, 2, 0, 0x7A, EVEX | TWO | NO_BC) X(CVTTPD2UDQ, "vcvttpd2udq", 1, 0, 1, 0x78, EVEX | TWO | NO_BC) \
  X(CVTTPS2QQ, "vcvttps2qq", 1, 1, 0, 0x7A, EVEX | TWO | NO_BC) X(CVTTPD2QQ, "vcvttpd2qq", 1, 1, 1, 0x7A, EVEX | TWO) \
  X(CVTTPS2UQQ, "vcvttps2uqq", 1, 1, 0, 0x78, EVEX | TWO | NO_BC) X(CVTTPD2UQQ, "vcvttpd2uqq", 1, 1, 1, 0x78, EVEX | TWO) \
  X(CVTSI2SS, "vcvtsi2ss", 1, 2, 1, 0x2A, NO_BC) X(CVTSI2SD, "vcvtsi2sd", 1, 3, 1, 0x2A, NO_BC)  \
  X(CVTPH2PS, "vcvtph2ps", 2, 1, 0, 0x13, NO_BC | TWO) X(CVTPS2PH, "vcvtps2ph", 3, 1, 0, 0x1D, NO_BC | TO | IMM) \
  X(PMOVZXBD, "vpmovzxbd", 2, 1, 0, 0x31, NO_BC | TWO) X(PMOVZXWD, "vpmovzxwd", 2, 1, 0, 0x33, NO_BC | TWO) \
  X(PMOVSXBD, "vpmovsxbd", 2, 1, 0, 0x21, NO_BC | TWO) X(PMOVSXWD, "vpmovsxwd", 2, 1, 0, 0x23, NO_BC | TWO) \
  X(PMOVSXDQ, "vpmovsxdq", 2, 1, 0, 0x25, NO_BC | TWO) X(PMOVZXDQ, "vpmovzxdq", 2, 1, 0, 0x35, NO_BC | TWO) \
  X(PMOVDB, "vpmovdb", 2, 2, 0, 0x31, EVEX | NO_BC | TO) X(PMOVDW, "vpmovdw", 2, 2, 0, 0x33, EVEX | NO_BC | TO) \
  X(PMOVQD, "vpmovqd", 2, 2, 0, 0x35, EVEX | NO_BC | TO)                                          \
  X(PSHUFB, "vpshufb", 2, 1, 0, 0x00, NO_BC) X(PSHUFD, "vpshufd", 1, 1, 0, 0x70, IMM | TWO)      \
  X(PERMQ, "vpermq", 3, 1, 1, 0x00, IMM | TWO)                                                   \
  X(PERMD, "vpermd", 2, 1, 0, 0x36, 0) X(PERMQV, "vpermq", 2, 1, 1, 0x36, EVEX)                  \
  X(INSERTI128, "vinserti128", 3, 1, 0, 0x38, IMM | NO_BC) X(EXTRACTI128, "vextracti128", 3, 1, 0, 0x39, IMM | NO_BC | TO) \
  X(EXTRACTI256, "vextracti64x4", 3, 1, 1, 0x3B, IMM | NO_BC | TO | EVEX)                         \
  X(PINSRD, "vpinsrd", 3, 1, 0, 0x22, IMM | NO_BC) X(PINSRQ, "vpinsrq", 3, 1, 1, 0x22, IMM | NO_BC) \
  X(PEXTRD, "vpextrd", 3, 1, 0, 0x16, IMM | NO_BC | TO) X(PEXTRQ, "vpextrq", 3, 1, 1, 0x16, IMM | NO_BC | TO) \
  X(PACKSSDW, "vpackssdw", 1, 1, 0, 0x6B, 0) X(PACKSSWB, "vpacksswb", 1, 1, 0, 0x63, NO_BC)      \
  X(PACKUSDW, "vpackusdw", 2, 1, 0, 0x2B, 0) X(PACKUSWB, "vpackuswb", 1, 1, 0, 0x67, NO_BC)      \
  X(UNPCKLPS, "vunpcklps", 1, 0, 0, 0x14, 0) X(UNPCKLPD, "vunpcklpd", 1, 1, 1, 0x14, 0)          \
  X(UNPCKHPS, "vunpckhps", 1, 0, 0, 0x15, 0) X(UNPCKHPD, "vunpckhpd", 1, 1, 1, 0x15, 0)          \
  X(SHUFF32X4, "vshuff32x4", 3, 1, 0, 0x23, IMM | EVEX) X(PERM2F128, "vperm2f128", 3, 1, 0, 0x06, IMM | VEX) \
  X(PUNPCKLDQ, "vpunpckldq", 1, 1, 0, 0x62, 0) X(SHUFPS, "vshufps", 1, 0, 0, 0xC6, IMM)          \
  X(PBLENDD, "vpblendd", 3, 1, 0, 0x02, IMM | VEX)                                               \
  X(PTESTMD, "vptestmd", 2, 1, 0, 0x27, EVEX | KD) X(PTESTMQ, "vptestmq", 2, 1, 1, 0x27, EVEX | KD) \
  X(PTESTNMD, "vptestnmd", 2, 2, 0, 0x27, EVEX | KD) X(FPCLASSPS, "vfpclassps", 3, 1, 0, 0x66, EVEX | KD | IMM | TWO) \
  X(PMOVM2D, "vpmovm2d", 2, 2, 0, 0x38, EVEX | NO_BC | TWO | KS) X(PMOVD2M, "vpmovd2m", 2, 2, 0, 0x39, EVEX | NO_BC | TWO | KD) \
  X(MOVMSKPS, "vmovmskps", 1, 0, 0, 0x50, VEX | TWO | GD)                                        \
  X(KMOV, "kmovw", 1, 0, 0, 0x90, VEX | TWO | KD | KS) X(KMOV_TO, "kmovw", 1, 0, 0, 0x91, VEX | TO | KD) \
  X(KMOV_FROM_GPR, "kmovw", 1, 0, 0, 0x92, VEX | TWO | KD | GS) X(KMOV_GPR, "kmovw", 1, 0, 0, 0x93, VEX | TWO | KS | GD) \
  X(GATHERQPS, "vgatherqps", 2, 1, 0, 0x93, NO_BC | VSIB) X(GATHERQPD, "vgatherqpd", 2, 1, 1, 0x93, NO_BC | VSIB) \
  X(KXNOR, "kxnorw", 1, 0, 0, 0x46, VEX | KD | KS)                                               \
  X(KAND, "kandw", 1, 0, 0, 0x41, VEX | KD | KS) X(KANDN, "kandnw", 1, 0, 0, 0x42, VEX | KD | KS) \
  X(KNOT, "knotw", 1, 0, 0, 0x44, VEX | TWO | KD | KS) X(KOR, "korw", 1, 0, 0, 0x45, VEX | KD | KS) \
  X(KORTEST, "kortestw", 1, 0, 0, 0x98, VEX | TWO | KD | KS)     \
  X(KXOR, "kxorw", 1, 0, 0, 0x47, VEX | KD | KS) X(ZEROUPPER, "vzeroupper", 1, 0, 0, 0x77, VEX | BARE) \
  X(TILELOAD, "tileloadd", 2, 3, 0, 0x4B, VEX | TWO) X(TILESTORE, "tilestored", 2, 2, 0, 0x4B, VEX | TO) \
  X(TILESTREAM, "tileloaddt1", 2, 1, 0, 0x4B, VEX | TWO) \
  X(TILEZERO, "tilezero", 2, 3, 0, 0x49, VEX | TWO) X(TDPBF16PS, "tdpbf16ps", 2, 2, 0, 0x5C, VEX) \
  X(TDPBSSD, "tdpbssd", 2, 3, 0, 0x5E, VEX) X(TDPBUUD, "tdpbuud", 2, 0, 0, 0x5E, VEX)

enum insn {
#define X86_ENUM_(id, ...) I_##id,
  X86_ROWS(X86_ENUM_)
#undef X86_ENUM_
  X86_INSNS
};

enum {
  X86_NO_BC = 1,   /* no embedded broadcast of a memory operand */
  X86_TO = 2,      /* the register is the source, the other operand the destination */
  X86_VEX = 4,     /* exists in VEX form only */
  X86_EVEX = 8,    /* exists in EVEX form only */
  X86_VW0 = 16,    /* VEX form wants W = 0 */
  X86_IMM = 32, X86_TWO = 64, /* an immediate follows; two operands, vvvv unused */
  X86_DIGIT = 128, /* the register field selects the operation, vvvv is the destination */
  X86_KD = 256, X86_KS = 512, X86_GD = 1024, X86_GS = 2048, /* mask or general destination, sources (for listings) */
  X86_BARE = 4096, X86_VSIB = 8192 /* the index is a vector; VEX: vvvv is the mask */
};
struct insn_row { const char *name; uint8_t map, pp, w, opcode; uint16_t flags; };
extern const struct insn_row x86_rows[X86_INSNS];

enum rm_kind { RM_REG, RM_MEM, RM_POOL };
struct rm {
  uint8_t kind, scale;      /* scale: log2 */
  bool broadcast;           /* one element for all lanes (EVEX) */
  int8_t reg, base, index;  /* index -1: none */
  int32_t disp;             /* RM_POOL: offset in the pool */
};
struct rm rm_reg(int reg);
struct rm rm_at(int base, int32_t disp);
struct rm rm_index(int base, int index, int scale, int32_t disp);

/* Scalar instructions as `gpr` takes them: opcode, with 0x0F00 for the two-byte ones. */
enum {
  G_ADD = 0x03, G_OR = 0x0B, G_AND = 0x23, G_SUB = 0x2B, G_XOR = 0x33, G_CMP = 0x3B, G_MOV = 0x8B, G_STORE = 0x89,
  G_LEA = 0x8D, G_IMUL = 0x0FAF, G_TEST = 0x85, G_ADD_TO = 0x01, G_MOVSXD = 0x63, G_CMOV = 0x0F40
};
enum { A_ADD, A_OR, A_AND = 4, A_SUB, A_XOR, A_CMP }; /* with an immediate */
enum cc { CC_B = 2, CC_AE, CC_E, CC_NE, CC_BE, CC_A, CC_L = 12, CC_GE, CC_LE, CC_G };

struct fixup { uint32_t at, pool; uint8_t tail; }; /* a displacement at `at`, `tail` bytes before the next instruction */
struct jump { uint32_t at; int label; };

struct encoder {
  uint8_t *code, *pool;
  size_t n, room, n_pool, pool_room;
  struct fixup *fixups;
  int n_fixups, fixup_room;
  struct jump *jumps;
  int n_jumps, jump_room;
  int64_t *labels;          /* offsets, -1: not placed yet */
  int n_labels, label_room;
  bool evex, failed;
};

void encoder_free(struct encoder *);
bool encoder_finish(struct encoder *); /* patches jumps and pool addresses; the pool follows at encoder_pool_at */
size_t encoder_pool_at(const struct encoder *);

/* dst = insn(src, rm). src is ignored by two-operand rows; imm by rows without one. bytes: 16, 32, 64. */
void vec(struct encoder *, enum insn, int bytes, int dst, int src, struct rm);
void vec_imm(struct encoder *, enum insn, int bytes, int dst, int src, struct rm, int imm);
void vec_mask(struct encoder *, enum insn, int bytes, int k, bool zero, int dst, int src, struct rm, int imm);

void gpr(struct encoder *, int opcode, int reg, struct rm);          /* 64-bit */
void gpr32(struct encoder *, int opcode, int reg, struct rm);        /* 32-bit */
void gpr_move(struct encoder *, int width, bool to_memory, int reg, struct rm); /* width 1, 2, 4, 8: zero-extending */
void gpr_imm(struct encoder *, int alu, struct rm, int32_t imm);
void gpr_const(struct encoder *, int reg, int64_t);
void gpr_mul_imm(struct encoder *, int reg, struct rm, int32_t imm);
void gpr_store_imm(struct encoder *, struct rm, int32_t imm);
void gpr_shift(struct encoder *, int digit, int reg, int count);     /* 4 shl, 5 shr, 7 sar */
void gpr_unary(struct encoder *, int digit, int reg);                /* 2 not, 3 neg, 4 mul, 5 imul, 6 div, 7 idiv */
void gpr_push(struct encoder *, int reg);
void gpr_pop(struct encoder *, int reg);
void gpr_setcc(struct encoder *, enum cc, int reg);                  /* and zero-extends; reg < 4 */
void gpr_byte_to(struct encoder *, int alu, int reg, struct rm);     /* a byte in memory, with a register */
void first_bit(struct encoder *, int dst, int src);                  /* the number of the lowest bit set */
void drop_first_bit(struct encoder *, int reg);                      /* and clears it; flags say whether any is left */
void prefetch(struct encoder *, struct rm);                          /* to the first cache; never faults */
void prefetch_written(struct encoder *, struct rm);                  /* to the first, and nobody else keeps it */
void prefetch_far(struct encoder *, struct rm);                      /* to the second */
void code_bytes(struct encoder *, const void *, int n);
void code_align(struct encoder *, int to);

int label_new(struct encoder *);
void label_here(struct encoder *, int label);
void jump_to(struct encoder *, int label);
void call_to(struct encoder *, int label);
void jump_if(struct encoder *, enum cc, int label);

/* Constants. A scalar is one element (a broadcast operand in EVEX, repeated over 32 bytes in VEX). */
struct rm pool_scalar(struct encoder *, int element_bytes, uint64_t bits);
struct rm pool_vector(struct encoder *, const void *, int bytes);
struct rm pool_table(struct encoder *, int element_bytes, const uint64_t *, int n);

#endif
