/* product.c - products of matrices by cuBLASLt.
 *
 * To the library matrices stand by columns: a row-major one is its own transpose there. So
 * it is asked for the transposed product, B' A', and finds Z as we want it. Bytes it takes
 * only where both operands go along k: B is transposed before. */
#include <string.h>

#include "cudev.h"
#include "turn.h"

#define WORKSPACE_MOST ((size_t)32 << 20) /* what NVIDIA advises for sm_90 */
#define ALIGNMENT      16u                /* of all matrices */

/* The library's call that sets an attribute of an object of this kind. */
#define LT_SET(kind, object, attribute, value) \
  lt.kind##SetAttribute(object, attribute, &(value), sizeof(value))

typedef struct product {
  cuda_call call; /* first */
  lt_handle handle;
  lt_desc desc;
  lt_layout a, b, z; /* ours */
  lt_algo algo;
  size_t workspace; /* of the library */
  union scale {
    float f32;
    double f64;
    int32_t i32;
  } alpha, beta;
  uint32_t at_a, at_b, at_z; /* buffers of the pass */
  uint32_t at_added, at_row; /* UINT32_MAX: there is none */
  /* B is transposed, into the memory behind the library's; NULL: it is not */
  cu_function turn;
  int k, n;
  size_t turned_at;
} product;

#define TURNED_MOST 65536 /* of k, and of n */

static kd_status product_failed(kd_device *d, cu_stream queue, int status,
                                const char *call) {
  cu_result code = cu.StreamQuery(queue);
  if (code != CU_OK && code != CU_NOT_READY)
    return cuda_failed(d, code, call); /* the driver knows better why */
  return FAIL(status == 3 ? KD_OUT_OF_MEMORY : KD_INTERNAL, "%s: %s", call,
              lt.GetStatusName(status));
}

static kd_status product_turn(kd_device *d, const cuda_lane *lane, product *p,
                              cu_pointer *b) {
  cu_pointer to = lane->scratch.memory + p->turned_at;
  void *arguments[] = {b, &to, &p->k, &p->n};
  unsigned tiles = (unsigned)((p->k + CUDA_TURN_TILE - 1) / CUDA_TURN_TILE) *
                   (unsigned)((p->n + CUDA_TURN_TILE - 1) / CUDA_TURN_TILE);
  CU_TRY(d, "cuLaunchKernel",
         cu.LaunchKernel(p->turn, tiles, 1, 1, CUDA_TURN_GROUP, 1, 1, 0,
                         lane->queue, arguments, NULL));
  *b = to;
  return KD_OK;
}

/* With the lock held. */
static kd_status product_enqueue(kd_device *d, cuda_lane *lane, cuda_call *call,
                                 const fam_command *m) {
  product *p = (product *)call;
  cu_pointer a = cuda_place_of(m, p->at_a), b = cuda_place_of(m, p->at_b);
  cu_pointer z = cuda_place_of(m, p->at_z), row = cuda_place_of(m, p->at_row);
  cu_pointer added = cuda_place_of(m, p->at_added);
  if ((a | b | added | row | z) % ALIGNMENT) return KD_UNIMPLEMENTED;
  if (row) {
    int status = LT_SET(MatmulDesc, p->desc, LT_DESC_BIAS_POINTER, row);
    if (status != 0)
      return product_failed(d, lane->queue, status,
                            "cublasLtMatmulDescSetAttribute");
  }
  if (p->turn) {
    kd_status status = product_turn(d, lane, p, &b);
    if (status != KD_OK) return status;
  }
  if (!added) added = z; /* beta is 0 */
  int status =
      lt.Matmul(p->handle, p->desc, &p->alpha, (const void *)(uintptr_t)b, p->b,
                (const void *)(uintptr_t)a, p->a, &p->beta,
                (const void *)(uintptr_t)added, p->z, (void *)(uintptr_t)z,
                p->z, &p->algo, (void *)(uintptr_t)lane->scratch.memory,
                p->workspace, lane->queue);
  return status == 0 ? KD_OK
                     : product_failed(d, lane->queue, status, "cublasLtMatmul");
}

static void product_destroy(cuda_call *call) {
  product *p = (product *)call;
  if (p->a) lt.MatrixLayoutDestroy(p->a);
  if (p->b) lt.MatrixLayoutDestroy(p->b);
  if (p->z) lt.MatrixLayoutDestroy(p->z);
  if (p->desc) lt.MatmulDescDestroy(p->desc);
  pthread_mutex_destroy(&p->call.lock);
  cuda_host->release(cuda_host, p);
}

/* ---- what it can do -------------------------------------------------------------------- */

typedef struct types {
  int operand, result, compute, scale;
} types;

static bool find_types(const kd_device *d, kd_dtype a, kd_dtype b, kd_dtype z,
                       types *out) {
  static const struct {
    kd_dtype operand, result;
    types it;
  } known[] = {
      {KD_F32, KD_F32, {LT_F32, LT_F32, LT_COMPUTE_F32, LT_F32}},
      {KD_F16, KD_F16, {LT_F16, LT_F16, LT_COMPUTE_F32, LT_F32}},
      {KD_BF16, KD_BF16, {LT_BF16, LT_BF16, LT_COMPUTE_F32, LT_F32}},
      {KD_F64, KD_F64, {LT_F64, LT_F64, LT_COMPUTE_F64, LT_F64}},
      {KD_I8, KD_I32, {LT_I8, LT_I32, LT_COMPUTE_I32, LT_I32}},
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].operand == a && a == b && known[i].result == z) {
      *out = known[i].it;
      if (a == KD_F32 && d->tf32) out->compute = LT_COMPUTE_TF32;
      return true;
    }
  return false;
}

static int32_t epilogue_of(const fam_gemm *g) {
  return g->activation == FAM_GELU
             ? (*g->row ? LT_EPILOGUE_GELU_BIAS : LT_EPILOGUE_GELU)
             : (*g->row ? LT_EPILOGUE_BIAS : LT_EPILOGUE_DEFAULT);
}

static union scale scale_of(int type, double value) {
  union scale s = {.f64 = value};
  if (type == LT_F32) s.f32 = (float)value;
  if (type == LT_I32) s.i32 = (int32_t)value;
  return s;
}

/* A row-major matrix. `step` from one of `batches` to the next, in elements. */
static int make_layout(int type, int64_t rows, int64_t columns, int64_t batches,
                       int64_t step, lt_layout *out) {
  int32_t count = (int32_t)batches;
  LIBRARY_TRY(lt.MatrixLayoutCreate(out, type, (uint64_t)columns,
                                    (uint64_t)rows, columns));
  if (batches == 1) return 0;
  LIBRARY_TRY(LT_SET(MatrixLayout, *out, LT_LAYOUT_BATCH_COUNT, count));
  return LT_SET(MatrixLayout, *out, LT_LAYOUT_BATCH_OFFSET, step);
}

static int product_describe(product *p, const fam_gemm *g, const types *t) {
  const int32_t transposed = LT_OP_T, epilogue = epilogue_of(g);
  const uint64_t somewhere = 4096; /* its alignment is what is asked about */
  LIBRARY_TRY(lt.MatmulDescCreate(&p->desc, t->compute, t->scale));
  if (g->b_transposed) /* the library's A is our B */
    LIBRARY_TRY(LT_SET(MatmulDesc, p->desc, LT_DESC_TRANSA, transposed));
  if (g->a_turned)
    LIBRARY_TRY(LT_SET(MatmulDesc, p->desc, LT_DESC_TRANSB, transposed));
  LIBRARY_TRY(LT_SET(MatmulDesc, p->desc, LT_DESC_EPILOGUE, epilogue));
  if (*g->row)
    LIBRARY_TRY(LT_SET(MatmulDesc, p->desc, LT_DESC_BIAS_POINTER, somewhere));
  LIBRARY_TRY(make_layout(t->operand, g->a_turned ? g->k : g->m,
                          g->a_turned ? g->m : g->k, g->batches, g->a_step,
                          &p->a));
  LIBRARY_TRY(make_layout(t->operand, g->b_transposed ? g->n : g->k,
                          g->b_transposed ? g->k : g->n, g->batches, g->b_step,
                          &p->b));
  return make_layout(t->result, g->m, g->n, g->batches, g->m * g->n, &p->z);
}

/* The library's own choice, of those that round once: sums of parts of k that it would join
 * in f16 or bf16 are off by several ulp. */
static bool product_choose(product *p, const types *t) {
  lt_preference wanted = NULL;
  lt_choice choice = {.state = -1};
  const uint32_t alignment = ALIGNMENT;
  const bool half = t->result == LT_F16 || t->result == LT_BF16;
  const uint32_t reductions =
      LT_REDUCTION_COMPUTE_TYPE | (half ? 0 : LT_REDUCTION_IN_PLACE);
  const size_t most = WORKSPACE_MOST;
  int count = 0, status = lt.MatmulPreferenceCreate(&wanted);
  if (status != 0) return false;
  status = LT_SET(MatmulPreference, wanted, LT_PREF_WORKSPACE, most);
  if (status == 0)
    status = LT_SET(MatmulPreference, wanted, LT_PREF_REDUCTIONS, reductions);
  for (int i = 0; status == 0 && i < 4; i++)
    status =
        LT_SET(MatmulPreference, wanted, LT_PREF_ALIGNMENT_A + i, alignment);
  if (status == 0)
    status = lt.MatmulAlgoGetHeuristic(p->handle, p->desc, p->b, p->a, p->z,
                                       p->z, wanted, 1, &choice, &count);
  lt.MatmulPreferenceDestroy(wanted);
  if (status != 0 || count < 1 || choice.state != 0) return false;
  p->algo = choice.algo;
  p->workspace = p->call.workspace = choice.workspace;
  return true;
}

/* In the context. */
static bool prepare_turn(kd_device *d, product *p, const fam_gemm *g) {
  if (cuda_program_get(d, cuda_turn, &p->turn) != KD_OK) return false;
  p->k = (int)g->k;
  p->n = (int)g->n;
  p->turned_at = (p->call.workspace + 255) / 256 * 256;
  p->call.workspace = p->turned_at + (size_t)(g->k * g->n);
  return true;
}

/* One matrix for all batches: as many rows more, of what is added, too. */
static fam_gemm gathered(fam_gemm g) {
  if (g.batches > 1 && !g.b_step && !g.a_turned && g.a_step == g.m * g.k) {
    g.m *= g.batches;
    g.batches = 1;
  }
  return g;
}

kd_status cuda_product_make(kd_device *d, const fam_pass *pass,
                            cuda_call **out_call) {
  fam_gemm g = gathered(pass->gemm);
  uint32_t a = cuda_buffer_named(pass, "A"), b = cuda_buffer_named(pass, "B");
  uint32_t z = cuda_buffer_named(pass, "Z");
  types t;
  *out_call = NULL;
  if (a == UINT32_MAX || b == UINT32_MAX || z == UINT32_MAX || g.m < 1 ||
      g.n < 1 || g.k < 1 || g.batches < 1 || g.batches > INT32_MAX ||
      !find_types(d, pass->buffers[a].dtype, pass->buffers[b].dtype,
                  pass->buffers[z].dtype, &t))
    return KD_OK;
  bool transposed = t.operand == LT_I8 && !g.b_transposed;
  if (transposed && (g.batches > 1 || g.k > TURNED_MOST || g.n > TURNED_MOST))
    return KD_OK;
  if (transposed) g.b_transposed = true;
  lt_handle handle = cuda_lt(d);
  if (!handle) return KD_OK;
  product *p = cuda_host->allocate(cuda_host, sizeof *p, 0);
  if (!p) return FAIL(KD_OUT_OF_MEMORY, "no memory for a product");
  memset(p, 0, sizeof *p);
  pthread_mutex_init(&p->call.lock, NULL);
  p->call.enqueue = product_enqueue;
  p->call.destroy = product_destroy;
  p->handle = handle;
  p->at_a = a;
  p->at_b = b;
  p->at_z = z;
  p->at_row = cuda_buffer_named(pass, g.row);
  p->at_added = g.beta == 0 ? UINT32_MAX : cuda_buffer_named(pass, g.added);
  p->alpha = scale_of(t.scale, g.alpha);
  p->beta = scale_of(t.scale, *g.added ? g.beta : 0);
  if (product_describe(p, &g, &t) == 0 && product_choose(p, &t) &&
      (!transposed || prepare_turn(d, p, &g))) {
    *out_call = &p->call;
    return KD_OK;
  }
  product_destroy(&p->call);
  /* better its product and a kernel behind it than ours, without tensor cores */
  return g.fused ? FAIL(KD_UNIMPLEMENTED,
                        "cuBLASLt does not support the ops after the product")
                 : KD_OK;
}
