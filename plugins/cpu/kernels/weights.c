/* weights.c - packs constant matrices of MatMul and Gemm, once for all who read them.
 *
 * A kernel is made for each shape that a model of open sizes meets, and all of them have
 * the same weights: they share one packed copy. It is found by where the constant's data
 * lie, which stay there as long as a kernel has them. Once the host has asked what was
 * taken it may free them, and something else may come to lie there: from then on the
 * copy is found by nobody. */
#include "weights.h"

#include <pthread.h>

#include "kernels.h"

#define LEAST \
  1024 /* elements; smaller ones are packed faster than they are found */

typedef struct packed {
  const void *data; /* the constant's, or NULL: it may be gone */
  int64_t k, n;
  bool turned; /* it is B transposed */
  int64_t users;
  float *panels;
  struct packed *next;
} packed;

struct kd_kernel {
  packed *weights; /* or NULL */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static packed *all;

static packed *find(const packed *like) {
  for (packed *p = all; p; p = p->next)
    if (p->data == like->data && p->k == like->k && p->n == like->n &&
        p->turned == like->turned)
      return p;
  return NULL;
}

static packed *pack(const packed *like) {
  packed *made = malloc(sizeof *made);
  if (!made) return NULL;
  *made = *like;
  const cpu_gemm gemm = {.dtype = KD_F32,
                         .trans_b = like->turned,
                         .n = like->n,
                         .k = like->k,
                         .b = like->data,
                         .ldb = like->turned ? like->k : like->n};
  made->panels = cpu_gemm_pack(&gemm);
  if (!made->panels) {
    free(made);
    return NULL;
  }
  made->next = all;
  all = made;
  return made;
}

/* Whether a node has weights that are worth it: an f32 constant of two dimensions. */
static bool wanted(const kd_node *node, packed *out) {
  const kd_node_table *read = cpu_host->node;
  kd_tensor b;
  kd_type a;
  if (cpu_wants_openblas() || read->input_type(node, 0, &a) != KD_OK ||
      a.dtype != KD_F32 || read->constant(node, 1, &b) != KD_OK ||
      b.dtype != KD_F32 || b.rank != 2 || b.strides || kd_elements(&b) < LEAST)
    return false;
  *out = (packed){.data = b.data,
                  .turned = !strcmp(read->op(node), "Gemm") &&
                            read->attr_int(node, "transB", 0) != 0};
  out->k = b.dims[out->turned];
  out->n = b.dims[!out->turned];
  return true;
}

kd_status cpu_create_product(kd_device *device, const kd_kernel_def *def,
                             const kd_node *node, kd_kernel **out_kernel) {
  (void)device;
  (void)def;
  packed like;
  kd_kernel *kernel = calloc(1, sizeof *kernel);
  if (!kernel) return FAIL(KD_OUT_OF_MEMORY, "no memory for a product");
  if (wanted(node, &like)) {
    pthread_mutex_lock(&lock);
    kernel->weights = find(&like);
    if (!kernel->weights) kernel->weights = pack(&like);
    if (kernel->weights) kernel->weights->users++;
    pthread_mutex_unlock(&lock);
    if (!kernel->weights) {
      free(kernel);
      return FAIL(KD_OUT_OF_MEMORY, "no memory for %lld x %lld packed weights",
                  (long long)like.k, (long long)like.n);
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
  if (!kernel->weights) return 0;
  pthread_mutex_lock(&lock);
  kernel->weights->data = NULL;
  pthread_mutex_unlock(&lock);
  return 2;
}

bool cpu_packed_weights(const kd_kernel *kernel, cpu_gemm *gemm) {
  const packed *weights = kernel ? kernel->weights : NULL;
  if (!weights) return false;
  gemm->k = weights->k;
  gemm->n = weights->n;
  gemm->panels = weights->panels;
  gemm->trans_b = false;
  return true;
}
