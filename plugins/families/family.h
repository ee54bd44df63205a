/* family.h - ops as kernels for devices that compile at run time, independent of any
 * driver.
 *
 * A family reads a node (types, shapes, attributes, host inputs) and makes a plan: passes,
 * each a kernel of families/kernels with its definitions, parameters and buffers. A dialect
 * (dialect.h) writes a pass as source; the plugin compiles it, binds buffers and launches.
 * Passes with equal source share one kernel, whatever their parameters, so new shapes
 * rarely need the compiler. */
#ifndef KEEL_FAMILIES_FAMILY_H
#define KEEL_FAMILIES_FAMILY_H

#include <kd/kd.h>
#include <stdbool.h>

#include "defs/ops.h"
#include "families/store.h"
#include "families/window.h"

#define FAM_INPUTS  128
#define FAM_OUTPUTS 128
#define FAM_BUFFERS 12  /* of a pass */
#define FAM_PARAMS  160 /* of a pass, 32 bits each */
#define FAM_LOCALS  4
#define FAM_CUTS    24
#define FAM_HEAD    6144

/* ---- what a family reads --------------------------------------------------------- */

typedef struct fam_tensor {
  kd_dtype dtype; /* KD_NONE: absent */
  uint32_t rank;
  int64_t dims[KD_MAX_RANK];
  int64_t count;
  const void *data; /* of a host input or a constant, in host memory; or NULL */
} fam_tensor;

typedef struct fam_op {
  const kd_host *host;
  const kd_node *node;
  uint32_t in_count, out_count;
  fam_tensor in[FAM_INPUTS], out[FAM_OUTPUTS];
  const struct fam_row *row;
} fam_op;

/* ---- what it makes ----------------------------------------------------------------- */

enum { FAM_INPUT, FAM_OUTPUT };

typedef struct fam_buffer {
  char name[8];
  uint8_t place, index;
  bool write;
  kd_dtype dtype; /* as what its elements are read; KD_C128: 16 bytes */
} fam_buffer;

typedef struct fam_local {
  char name[12];
  kd_dtype dtype;
  uint32_t count;
} fam_local;

/* The activation of each element at the end. FAM_GELU: the tanh approximation. */
typedef enum fam_activation {
  FAM_PLAIN,
  FAM_RELU,
  FAM_GELU,
  FAM_ANOTHER
} fam_activation;

/* What a pass computes, for devices with a library that may do it faster. Buffers have the
 * names used here. */
typedef struct fam_gemm {
  /* Z = f(alpha A B + beta ADDED + ROW), m x n and row-major, `batches` times */
  int64_t m, n, k, batches;
  int64_t a_step,
      b_step; /* elements from a matrix to the next; 0: one for all */
  bool a_turned, b_transposed; /* A is stored as k x m, B as n x k */
  double alpha, beta;
  char row[12];   /* a buffer of n elements; "": there is none */
  char added[12]; /* one as Z; "": there is none */
  fam_activation activation;
  bool fused; /* it represents more than one op */
} fam_gemm;

typedef struct fam_conv {
  /* Z = f(B * A + BIAS + ADDED): images B (N, channels, in), filters A; `sections` apart */
  window w;
  int64_t images, channels, filters, sections;
  fam_activation activation;
} fam_conv;

/* How the work of a product or a convolution is cut, which the cost model says, or a search
 * (tune.h): by which kernel, and how many results an item makes, as the kernel has them. */
typedef struct fam_cut {
  const char *kernel; /* NULL: it is cut in one way alone */
  int64_t rows, columns;
} fam_cut;

typedef struct fam_pass {
  const char *kernel; /* a file of families/kernels */
  enum { FAM_KERNEL, FAM_GEMM, FAM_CONV } what;
  union {
    fam_gemm gemm;
    fam_conv conv;
  };
  uint32_t buffer_count, param_count, local_count;
  fam_buffer buffers[FAM_BUFFERS];
  fam_local locals[FAM_LOCALS];
  uint32_t params[FAM_PARAMS];             /* int32 or the bits of an f32 */
  uint32_t single[(FAM_PARAMS + 31) / 32]; /* bits: those that are no lists' */
  /* an item computes a vector of four neighbours */
  bool vec4;
  bool trades;     /* items of a subgroup trade values: SHUFFLE */
  uint64_t groups; /* work-groups */
  uint32_t group;  /* work-items of each */
  fam_cut cut;     /* as it is cut; and how it can be, that among them */
  fam_cut cuts[FAM_CUTS];
  uint32_t cut_count;
  /* of what is cut: what the best cut depends on, beside the device */
  fam_key work;
  uint32_t head_size;
  char head[FAM_HEAD]; /* definitions that belong to the source */
} fam_pass;

typedef struct fam_plan {
  const kd_host *host;
  kd_status status; /* the first failure; all later calls do nothing */
  uint32_t count, room;
  fam_pass *passes;
  bool float64; /* f64 may be used for intermediates */
  bool math64;  /* and has functions: exp, sin ... */
  bool int64;   /* i64 and u64 may be used for intermediates */
  bool vec4;    /* vectors of four are read and written faster */
  bool
      crowds; /* groups may have up to 1024 work-items where there is much to do */
  bool shared; /* groups have fast memory of their own */
  /* of processors, whose sums are best kept in the registers of one item (`wide`: f32 in a
   * vector of the language) or of a subgroup that trades values (`lanes`: its items); 0 */
  uint32_t wide, lanes;
  fam_cut cut; /* wanted of what can be cut so; kernel NULL: the cost model's */
  /* said by the op: where a library has products, it is faster as the products that it
   * expands to */
  bool rather_products;
  fam_pass sink; /* a sink for writes after a failure */
} fam_plan;

typedef struct fam_row {
  const char *domain, *op; /* domain NULL: ai.onnx */
  uint32_t host_inputs;    /* bits */
  uint32_t number;
  void (*plan)(const fam_op *op, fam_plan *plan);
} fam_row;

static inline bool fam_on_host(const fam_row *row, uint32_t input) {
  return input < 32 && (row->host_inputs >> input & 1);
}

/* Rows by op: FAM_ROW_Add ... */
enum {
/* In place of inputs by bit: the output is input 0, in which some elements change. */
#define FAM_UPDATED 0x80000000u
/* Outputs 1 and 2 are inputs 3 and 4, a cache in which some rows change. */
#define FAM_CACHED 0x40000000u

#define FAM_OP(space, name, set, out, host, forward, kind, function) \
  FAM_ROW_##name,
#include "families/ops.def"
  FAM_ROW_COUNT
};
extern const fam_row fam_rows[];
extern const uint32_t fam_row_count;

/* Reads a node. `launch`, or NULL, has the values of host inputs.
 * Returns KD_OK, KD_UNIMPLEMENTED (unknown shapes, too many arguments). */
kd_status fam_read(fam_op *op, const kd_host *host, const kd_node *node,
                   const fam_row *row, const kd_launch *launch);

/* Whether the values of all host inputs are known, on which output shapes may depend,
 * too. */
bool fam_knows_all(const fam_op *op);

/* Plans a node. The plan is freed by fam_free in any case. */
kd_status fam_make(fam_plan *plan, const fam_op *op, const fam_row *row);
void fam_free(fam_plan *plan);

/* ---- for the families' own files ------------------------------------------------------ */

kd_status fam_fail(const fam_op *op, fam_plan *plan, kd_status status,
                   const char *format, ...) KD_PRINTF(4, 5);

/* The same at the end of a function that plans. */
#define FAM_REFUSE(op, plan, ...)    \
  do {                               \
    fam_fail(op, plan, __VA_ARGS__); \
    return;                          \
  } while (0)

/* A new pass, or NULL after a failure. */
fam_pass *fam_begin(fam_plan *plan, const char *kernel);

/* Buffer `name` of the kernel: input or output `index`. */
void fam_bind(fam_pass *pass, const char *name, int place, uint32_t index,
              kd_dtype dtype);
static inline void fam_in(fam_pass *pass, const char *name, const fam_op *op,
                          uint32_t index) {
  fam_bind(pass, name, FAM_INPUT, index, op->in[index].dtype);
}
static inline void fam_out(fam_pass *pass, const char *name, const fam_op *op,
                           uint32_t index) {
  fam_bind(pass, name, FAM_OUTPUT, index, op->out[index].dtype);
}

/* A definition in the source. */
void fam_define(fam_pass *pass, const char *name, const char *format, ...)
    KD_PRINTF(3, 4);
/* Parameters: NAME is the value; NAME(i) one of a list. */
void fam_int(fam_plan *plan, fam_pass *pass, const char *name, int64_t value);
void fam_ints(fam_plan *plan, fam_pass *pass, const char *name, int64_t count,
              const int64_t *values);
/* The same for lists with one entry per dimension: with room for at least eight, so that
 * the source does not depend on their number. */
void fam_dims(fam_plan *plan, fam_pass *pass, const char *name, int64_t count,
              const int64_t *values);
void fam_real(fam_pass *pass, const char *name, double value);
/* Memory that the work-items of a group share. */
void fam_share(fam_pass *pass, const char *name, kd_dtype dtype,
               uint32_t count);

/* How often the kernel runs: for each of `items`, or for groups of `size`. */
void fam_items(fam_plan *plan, fam_pass *pass, int64_t items);
void fam_groups(fam_pass *pass, int64_t groups, uint32_t size);

/* The type that elements are computed in: f32 for half and brain floats. */
kd_dtype fam_compute(kd_dtype dtype);
/* What a mean is summed and divided in, so that it is rounded once; PAIRED where that is two f32
 * for want of f64; and `s` of that type as it is stored. */
kd_dtype fam_mean_type(const fam_plan *plan, kd_dtype dtype);
void fam_define_mean(const fam_plan *plan, fam_pass *pass, kd_dtype dtype);
const char *fam_store_once(kd_dtype from, kd_dtype to);
bool fam_is_float(kd_dtype dtype);
bool fam_is_signed(kd_dtype dtype);
/* Bits of an element as an unsigned integer, for what only moves data. */
kd_dtype fam_bits(kd_dtype dtype);

/* Fails if the device has no functions (exp, sin, pow ...) of this type. */
bool fam_need_math(const fam_op *op, fam_plan *plan, kd_dtype compute);

/* Attributes, and integers of a host input (0 where it is absent). */
int64_t fam_attr(const fam_op *op, const char *name, int64_t fallback);
double fam_attr_real(const fam_op *op, const char *name, double fallback);
bool fam_attr_is(const fam_op *op, const char *name, const char *fallback,
                 const char *value);
int64_t fam_attr_list(const fam_op *op, const char *name, int64_t *out,
                      int64_t room);
int64_t fam_host_ints(const fam_op *op, fam_plan *plan, uint32_t input,
                      int64_t *out, int64_t room);
/* Element i of a host input; 0 where it is not known. */
double fam_host_real(const fam_tensor *tensor, int64_t i);
bool fam_has(const fam_op *op, uint32_t input);
/* The expression of the row that a string attribute names, up to a row without a name;
 * NULL: none. */
typedef struct fam_expression {
  const char *name, *text;
} fam_expression;
const char *fam_rule(const fam_op *op, const char *attr, const char *fallback,
                     const fam_expression *rows);
/* An axis in [0, rank); fails otherwise. */
uint32_t fam_axis(const fam_op *op, fam_plan *plan, int64_t axis,
                  uint32_t rank);
int64_t fam_product(const int64_t *dims, uint32_t from, uint32_t to);

#endif /* KEEL_FAMILIES_FAMILY_H */
