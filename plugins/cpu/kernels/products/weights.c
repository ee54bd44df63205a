/* weights.c - packs constant matrices of MatMul, Gemm and ConvTranspose, once for all kernels that
 * read them (shared.h). */
#include "weights.h"

#include "conv/transposed.h"
#include "families/window.h"
#include "kernels.h"
#include "shared.h"
#include "tiles.h"

#define LEAST \
  1024 /* elements; smaller ones are packed faster than they are found */

#define POSITIONS 4096

struct kd_kernel {
  cpu_shared *weights; /* panels of floats, or NULL */
  int64_t k, n, matrices;
  uint32_t rank;
  int64_t dims[WINDOW_SPACE + 2];
};

static bool is_op(const kd_node *node, const char *op) {
  return !strcmp(cpu_host->node->op(node), op);
}

/* Of a matrix, or a MatMul's matrices, or of a ConvTranspose of one group: for each channel of
 * the input, taps of those of the output. Where there are many positions, packing in each run
 * is nothing. */
static bool is_matrix(const kd_node *node, const kd_type *x, const kd_type *b) {
  int64_t positions = 1;
  if (!is_op(node, "ConvTranspose"))
    return b->rank == 2 || (is_op(node, "MatMul") && b->rank > 2 &&
                            b->rank <= WINDOW_SPACE + 2);
  for (uint32_t i = 2; i < x->rank && positions <= POSITIONS; i++)
    positions *= x->dims[i];
  return b->rank > 2 && b->rank <= WINDOW_SPACE + 2 && positions <= POSITIONS &&
         cpu_host->node->attr_int(node, "group", 1) == 1 && b->dims[0] > 0 &&
         product(b->dims, 1, b->rank) >= CPU_TRANSPOSE_LEAST;
}

/* Whether a node has weights that are worth it: an f32 constant. Sets the kernel, and the product
 * but for its data. */
static bool weights_wanted(const kd_node *node, cpu_gemm *out,
                           kd_kernel *kernel) {
  const kd_node_table *read = cpu_host->node;
  kd_type a, b;
  if (cpu_wants_openblas() || read->input_type(node, 0, &a) != KD_OK ||
      a.dtype != KD_F32 || read->input_type(node, 1, &b) != KD_OK ||
      b.dtype != KD_F32 || !is_matrix(node, &a, &b) ||
      product(b.dims, 0, b.rank) < LEAST || !cpu_is_constant(node, 1))
    return false;
  bool transposed =
      is_op(node, "Gemm") && read->attr_int(node, "transB", 0) != 0;
  /* of a ConvTranspose, the first one; of a matrix, that before the last */
  uint32_t row = is_op(node, "ConvTranspose") ? 0 : b.rank - 2;
  *out = (cpu_gemm){.dtype = KD_F32,
                    .trans_b = transposed,
                    .k = b.dims[row + transposed],
                    .ldb = product(b.dims, row + 1, b.rank)};
  out->n = transposed ? b.dims[0] : out->ldb;
  /* few columns are filled up to a panel's: of many matrices that would be a lot, and a single
   * column is read faster as a vector */
  if ((b.rank > 2 || out->n == 1) && !is_op(node, "ConvTranspose") &&
      cpu_gemm_packed(out) > 2 * out->k * out->n)
    return false;
  kernel->k = out->k;
  kernel->n = out->n;
  kernel->rank = b.rank;
  memcpy(kernel->dims, b.dims, b.rank * sizeof *b.dims);
  kernel->matrices =
      is_op(node, "ConvTranspose") ? 1 : product(b.dims, 0, b.rank - 2);
  return true;
}

/* Of a ConvTranspose, in the order that transposed.h says. NULL: no memory. */
static float *pack_ordered(const cpu_gemm *gemm, const int64_t *dims) {
  cpu_gemm in_order = *gemm;
  float *ordered = malloc((size_t)(gemm->k * gemm->n) * sizeof *ordered);
  if (!ordered) return NULL;
  cpu_transposed_order(gemm->b, gemm->k, dims[1], gemm->n / dims[1], ordered);
  in_order.b = ordered;
  float *made = cpu_gemm_pack(&in_order, 1);
  free(ordered);
  return made;
}

typedef struct panels_of {
  cpu_gemm *gemm;
  const kd_kernel *kernel;
  bool ordered;
} panels_of;

static bool pack_panels(void *context, const kd_tensor *constant,
                        void **out_data, void **out_more) {
  const panels_of *all = context;
  (void)out_more;
  all->gemm->b = constant->data;
  *out_data = all->ordered ? pack_ordered(all->gemm, all->kernel->dims)
                           : cpu_gemm_pack(all->gemm, all->kernel->matrices);
  return *out_data != NULL;
}

CPU_CREATE(product) {
  cpu_gemm gemm;
  kd_kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return FAIL(KD_OUT_OF_MEMORY, "no memory for a product");
  if (weights_wanted(node, &gemm, kernel)) {
    panels_of all = {&gemm, kernel, is_op(node, "ConvTranspose")};
    cpu_share_key key = {
        0,
        all.ordered ? "panels of taps" : "panels",
        {gemm.k, gemm.n, gemm.trans_b, kernel->matrices,
         cpu_tiles_get()->columns, all.ordered ? kernel->dims[1] : 0}};
    kd_status status =
        cpu_share_get(node, 1, &key, pack_panels, &all, &kernel->weights);
    if (status != KD_OK) {
      free(kernel);
      return status;
    }
  }
  *out_kernel = kernel;
  return KD_OK;
}

void cpu_destroy_product(kd_kernel *kernel) {
  cpu_share_drop(kernel->weights);
  free(kernel);
}

uint64_t cpu_taken_product(kd_kernel *kernel) {
  return kernel->weights ? 2 : 0;
}

const int64_t *cpu_packed_dims(const kd_kernel *kernel) {
  return kernel && kernel->weights ? kernel->dims : NULL;
}

bool cpu_packed_matrices(const kd_kernel *kernel, cpu_matrices *out) {
  if (!kernel || !kernel->weights || kernel->matrices == 1) return false;
  const cpu_gemm gemm = {.k = kernel->k, .n = kernel->n};
  *out = (cpu_matrices){.panels = kernel->weights->data,
                        .each = cpu_gemm_packed(&gemm),
                        .rank = kernel->rank,
                        .dims = kernel->dims};
  return true;
}

bool cpu_packed_weights(const kd_kernel *kernel, cpu_gemm *gemm) {
  if (!kernel || !kernel->weights || kernel->matrices > 1) return false;
  gemm->k = kernel->k;
  gemm->n = kernel->n;
  gemm->panels = kernel->weights->data;
  gemm->trans_b = false;
  return true;
}
