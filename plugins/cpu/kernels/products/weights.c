/* weights.c - packs constant matrices of MatMul, Gemm and ConvTranspose, once for all who
 * read them.
 *
 * A kernel is made for each shape that a model of open sizes meets, and all of them have
 * the same weights: they share one packed copy. It is found by what it holds, for the host
 * may have freed what it was made of, and given a copy of that to the next kernel. */
#include "weights.h"

#include <pthread.h>

#include "conv/transposed.h"
#include "families/window.h"
#include "kernels.h"
#include "tiles.h"

#define LEAST \
  1024 /* elements; smaller ones are packed faster than they are found */

#define POSITIONS 4096

typedef struct packed {
  int64_t k, n, columns; /* of a panel */
  int64_t matrices;
  int64_t users;
  size_t size; /* bytes */
  float *panels;
  struct packed *next;
} packed;

struct kd_kernel {
  packed *weights; /* or NULL */
  uint32_t rank;
  int64_t dims[WINDOW_SPACE + 2];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static packed *all;

static packed *weights_find(const packed *like) {
  for (packed *p = all; p; p = p->next)
    if (p->k == like->k && p->n == like->n && p->columns == like->columns &&
        p->matrices == like->matrices &&
        !memcmp(p->panels, like->panels, like->size))
      return p;
  return NULL;
}

/* One that holds the same, or itself, which has one user more then. */
static packed *weights_share(packed *made) {
  pthread_mutex_lock(&lock);
  packed *there = weights_find(made);
  if (!there) {
    made->next = all;
    all = made;
    there = made;
  }
  there->users++;
  pthread_mutex_unlock(&lock);
  if (there != made) {
    free(made->panels);
    free(made);
  }
  return there;
}

/* Matrices that lie one behind the other. */
static packed *weights_pack(const cpu_gemm *gemm, int64_t matrices) {
  packed *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->k = gemm->k;
  made->n = gemm->n;
  made->columns = cpu_tiles_get()->columns;
  made->matrices = matrices;
  made->size = (size_t)(cpu_gemm_packed(gemm) * matrices) * sizeof(float);
  made->panels = cpu_gemm_pack(gemm, matrices);
  if (made->panels) return weights_share(made);
  free(made);
  return NULL;
}

static bool is_op(const kd_node *node, const char *op) {
  return !strcmp(cpu_host->node->op(node), op);
}

/* Of a matrix, or a MatMul's matrices, or of a ConvTranspose of one group: for each channel of
 * the input, taps of those of the output. Where there are many positions, packing in each run
 * is nothing. */
static bool is_matrix(const kd_node *node, const kd_type *x,
                      const kd_tensor *b) {
  int64_t positions = 1;
  if (!is_op(node, "ConvTranspose"))
    return b->rank == 2 || (is_op(node, "MatMul") && b->rank > 2 &&
                            b->rank <= WINDOW_SPACE + 2);
  for (uint32_t i = 2; i < x->rank && positions <= POSITIONS; i++)
    positions *= x->dims[i];
  return b->rank > 2 && b->rank <= WINDOW_SPACE + 2 && positions <= POSITIONS &&
         cpu_host->node->attr_int(node, "group", 1) == 1 && b->dims[0] > 0 &&
         kd_elements(b) / b->dims[0] >= CPU_TRANSPOSE_LEAST;
}

/* Whether a node has weights that are worth it: an f32 constant. */
static bool weights_wanted(const kd_node *node, cpu_gemm *out,
                           uint32_t *out_rank, int64_t *dims) {
  const kd_node_table *read = cpu_host->node;
  kd_tensor b;
  kd_type a;
  if (cpu_wants_openblas() || read->input_type(node, 0, &a) != KD_OK ||
      a.dtype != KD_F32 || read->constant(node, 1, &b) != KD_OK ||
      b.dtype != KD_F32 || !is_matrix(node, &a, &b) || b.strides ||
      kd_elements(&b) < LEAST)
    return false;
  bool turned = is_op(node, "Gemm") && read->attr_int(node, "transB", 0) != 0;
  /* of a ConvTranspose, the first one; of a matrix, that before the last */
  uint32_t row = is_op(node, "ConvTranspose") ? 0 : b.rank - 2;
  *out = (cpu_gemm){.dtype = KD_F32,
                    .trans_b = turned,
                    .k = b.dims[row + turned],
                    .b = b.data,
                    .ldb = product(b.dims, row + 1, b.rank)};
  out->n = turned ? b.dims[0] : out->ldb;
  /* few columns are filled up to a panel's: of many matrices that would be a lot, and a single
   * column is read faster as a vector */
  if ((b.rank > 2 || out->n == 1) && !is_op(node, "ConvTranspose") &&
      cpu_gemm_packed(out) > 2 * out->k * out->n)
    return false;
  *out_rank = b.rank;
  memcpy(dims, b.dims, b.rank * sizeof *dims);
  return true;
}

/* Of a ConvTranspose, in the order that transposed.h says. NULL: no memory. */
static packed *pack_ordered(const cpu_gemm *gemm, const int64_t *dims) {
  cpu_gemm in_order = *gemm;
  float *ordered = malloc((size_t)(gemm->k * gemm->n) * sizeof *ordered);
  if (!ordered) return NULL;
  cpu_transposed_order(gemm->b, gemm->k, dims[1], gemm->n / dims[1], ordered);
  in_order.b = ordered;
  packed *made = weights_pack(&in_order, 1);
  free(ordered);
  return made;
}

kd_status cpu_create_product(kd_device *device, const kd_kernel_def *def,
                             const kd_node *node, kd_kernel **out_kernel) {
  (void)device;
  (void)def;
  cpu_gemm gemm;
  kd_kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return FAIL(KD_OUT_OF_MEMORY, "no memory for a product");
  if (weights_wanted(node, &gemm, &kernel->rank, kernel->dims)) {
    int64_t matrices = product(kernel->dims, 0, kernel->rank - 2);
    kernel->weights = is_op(node, "ConvTranspose")
                          ? pack_ordered(&gemm, kernel->dims)
                          : weights_pack(&gemm, matrices);
    if (!kernel->weights) {
      free(kernel);
      return FAIL(KD_OUT_OF_MEMORY, "no memory for %lld x %lld packed weights",
                  (long long)gemm.k, (long long)gemm.n);
    }
  }
  *out_kernel = kernel;
  return KD_OK;
}

void cpu_destroy_product(kd_kernel *kernel) {
  packed *weights = kernel->weights;
  free(kernel);
  if (!weights) return;
  pthread_mutex_lock(&lock);
  bool last = --weights->users == 0;
  for (packed **at = &all; last && *at; at = &(*at)->next)
    if (*at == weights) {
      *at = weights->next;
      break;
    }
  pthread_mutex_unlock(&lock);
  if (!last) return;
  free(weights->panels);
  free(weights);
}

uint64_t cpu_taken_product(kd_kernel *kernel) {
  return kernel->weights ? 2 : 0;
}

const int64_t *cpu_packed_dims(const kd_kernel *kernel) {
  return kernel && kernel->weights ? kernel->dims : NULL;
}

bool cpu_packed_matrices(const kd_kernel *kernel, cpu_matrices *out) {
  const packed *weights = kernel ? kernel->weights : NULL;
  if (!weights || weights->matrices == 1) return false;
  const cpu_gemm gemm = {.k = weights->k, .n = weights->n};
  *out = (cpu_matrices){.panels = weights->panels,
                        .each = cpu_gemm_packed(&gemm),
                        .rank = kernel->rank,
                        .dims = kernel->dims};
  return true;
}

bool cpu_packed_weights(const kd_kernel *kernel, cpu_gemm *gemm) {
  const packed *weights = kernel ? kernel->weights : NULL;
  if (!weights || weights->matrices > 1) return false;
  gemm->k = weights->k;
  gemm->n = weights->n;
  gemm->panels = weights->panels;
  gemm->trans_b = false;
  return true;
}
