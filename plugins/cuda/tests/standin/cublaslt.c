/* cublaslt.c - a stand-in for cuBLASLt: products as the manual defines them, matrices by
 * columns, in the order of the stream. It refuses what the library refuses, and what is
 * not as it was described. */
#include "part.h"

LT_FUNCTIONS(DECLARE)
API size_t cublasLtGetVersion(void);
API const char *cublasLtGetStatusName(int status);

enum { OK = 0, INVALID = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum { SCRATCH = 4096, CHOSEN = 77, PART = 64 };

struct lt_handle_of {
  int unused;
};
struct lt_desc_of {
  int compute, scale;
  int32_t turned_a, turned_b;
  uint32_t epilogue;
  uint64_t bias;
};
struct lt_layout_of {
  int type;
  int64_t rows, columns, leading, step;
  int32_t batches;
};
struct lt_preference_of {
  uint64_t workspace;
  uint32_t alignment[4], reductions;
};

API size_t cublasLtGetVersion(void) {
  return 130100;
}

API const char *cublasLtGetStatusName(int status) {
  return status == INVALID         ? "CUBLAS_STATUS_INVALID_VALUE"
         : status == NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
                                   : "CUBLAS_STATUS_EXECUTION_FAILED";
}

API int cublasLtCreate(lt_handle *out) {
  if (getenv("STANDIN_NO_CUBLASLT")) return NOT_SUPPORTED;
  MAKE(out);
}
API int cublasLtDestroy(lt_handle handle) {
  FREE(handle);
}

/* ---- descriptions ---------------------------------------------------------------------- */

API int cublasLtMatmulDescCreate(lt_desc *out, int compute, int scale) {
  *out = calloc(1, sizeof **out);
  if (!*out) return EXECUTION_FAILED;
  **out =
      (struct lt_desc_of){.compute = compute, .scale = scale, .epilogue = 1};
  return OK;
}
API int cublasLtMatmulDescDestroy(lt_desc desc) {
  FREE(desc);
}

static int put(void *to, size_t room, const void *value, size_t size) {
  if (room != size) return INVALID;
  memcpy(to, value, size);
  return OK;
}

API int cublasLtMatmulDescSetAttribute(lt_desc desc, int attribute,
                                       const void *value, size_t size) {
  switch (attribute) {
    case LT_DESC_TRANSA:
      return put(&desc->turned_a, sizeof desc->turned_a, value, size);
    case LT_DESC_TRANSB:
      return put(&desc->turned_b, sizeof desc->turned_b, value, size);
    case LT_DESC_EPILOGUE:
      return put(&desc->epilogue, sizeof desc->epilogue, value, size);
    case LT_DESC_BIAS_POINTER:
      return put(&desc->bias, sizeof desc->bias, value, size);
    default:
      return INVALID;
  }
}

API int cublasLtMatrixLayoutCreate(lt_layout *out, int type, uint64_t rows,
                                   uint64_t columns, int64_t leading) {
  *out = calloc(1, sizeof **out);
  if (!*out) return EXECUTION_FAILED;
  **out = (struct lt_layout_of){.type = type,
                                .rows = (int64_t)rows,
                                .columns = (int64_t)columns,
                                .leading = leading,
                                .batches = 1};
  return OK;
}
API int cublasLtMatrixLayoutDestroy(lt_layout layout) {
  FREE(layout);
}
API int cublasLtMatrixLayoutSetAttribute(lt_layout layout, int attribute,
                                         const void *value, size_t size) {
  return attribute == LT_LAYOUT_BATCH_COUNT
             ? put(&layout->batches, sizeof layout->batches, value, size)
         : attribute == LT_LAYOUT_BATCH_OFFSET
             ? put(&layout->step, sizeof layout->step, value, size)
             : INVALID;
}

API int cublasLtMatmulPreferenceCreate(lt_preference *out) {
  *out = calloc(1, sizeof **out);
  if (!*out) return EXECUTION_FAILED;
  (*out)->reductions = 7; /* all */
  return OK;
}
API int cublasLtMatmulPreferenceDestroy(lt_preference preference) {
  FREE(preference);
}
API int cublasLtMatmulPreferenceSetAttribute(lt_preference preference,
                                             int attribute, const void *value,
                                             size_t size) {
  if (attribute == LT_PREF_WORKSPACE)
    return put(&preference->workspace, sizeof preference->workspace, value,
               size);
  if (attribute == LT_PREF_REDUCTIONS)
    return put(&preference->reductions, sizeof preference->reductions, value,
               size);
  if (attribute < LT_PREF_ALIGNMENT_A || attribute > LT_PREF_ALIGNMENT_A + 3)
    return INVALID;
  return put(&preference->alignment[attribute - LT_PREF_ALIGNMENT_A],
             sizeof(uint32_t), value, size);
}

/* ---- products -------------------------------------------------------------------------- */

static int number_of(int type) {
  return type == LT_F32    ? F32
         : type == LT_F64  ? F64
         : type == LT_F16  ? F16
         : type == LT_BF16 ? BF16
         : type == LT_I8   ? I8
         : type == LT_I32  ? I32
                           : -1;
}

/* Whether shapes fit, and types are ones of the manual's table. */
static int check(const struct lt_desc_of *desc, const struct lt_layout_of *a,
                 const struct lt_layout_of *b, const struct lt_layout_of *d) {
  int64_t m = desc->turned_a ? a->columns : a->rows;
  int64_t k = desc->turned_a ? a->rows : a->columns;
  int64_t n = desc->turned_b ? b->rows : b->columns;
  if ((desc->turned_b ? b->columns : b->rows) != k || d->rows != m ||
      d->columns != n || a->leading < a->rows || b->leading < b->rows ||
      d->leading < d->rows || a->batches != b->batches ||
      a->batches != d->batches || a->type != b->type)
    return INVALID;
  bool integers = desc->compute == LT_COMPUTE_I32;
  bool narrow = a->type == LT_F32 || a->type == LT_F16 || a->type == LT_BF16;
  if (desc->epilogue != LT_EPILOGUE_DEFAULT && !narrow) return NOT_SUPPORTED;
  if (integers) /* operands as the integer units take them */
    return a->type == LT_I8 && d->type == LT_I32 && desc->scale == LT_I32 &&
                   desc->turned_a && !desc->turned_b && m % 4 == 0 && k % 4 == 0
               ? OK
               : NOT_SUPPORTED;
  if (desc->compute == LT_COMPUTE_F64)
    return a->type == LT_F64 && d->type == LT_F64 && desc->scale == LT_F64
               ? OK
               : NOT_SUPPORTED;
  bool f32 =
      desc->compute == LT_COMPUTE_F32 || desc->compute == LT_COMPUTE_TF32;
  return f32 && desc->scale == LT_F32 && a->type == d->type && narrow
             ? OK
             : NOT_SUPPORTED;
}

API int cublasLtMatmulAlgoGetHeuristic(lt_handle handle, lt_desc desc,
                                       lt_layout a, lt_layout b, lt_layout c,
                                       lt_layout d, lt_preference preference,
                                       int wanted, lt_choice *choices,
                                       int *count) {
  if (!handle || wanted < 1 || c->rows != d->rows) return INVALID;
  int status = check(desc, a, b, d);
  *count = 0;
  if (status != OK) return status;
  if (preference->workspace < SCRATCH || preference->alignment[0] > 256)
    return NOT_SUPPORTED;
  choices[0] = (lt_choice){.workspace = SCRATCH, .state = OK};
  choices[0].algo.data[0] = CHOSEN;
  /* few and long sums are joined of parts, as the library does: in the result's type, if
   * that is not ruled out */
  choices[0].algo.data[1] = d->rows * d->columns < 64 &&
                            preference->reductions & LT_REDUCTION_IN_PLACE;
  *count = 1;
  return OK;
}

typedef struct work {
  struct lt_desc_of desc;
  struct lt_layout_of a, b, c, d;
  double alpha, beta;
  bool in_place;
  const void *from_a, *from_b, *from_c;
  void *to, *scratch;
} work;

static double element(const struct lt_layout_of *l, const void *data,
                      int64_t batch, int64_t row, int64_t column) {
  return load((number)number_of(l->type), data,
              batch * l->step + column * l->leading + row);
}

static double rounded(number type, double value) {
  double room = 0;
  store(type, &room, 0, value);
  return load(type, &room, 0);
}

static void run(void *context) {
  const work *w = context;
  const struct lt_desc_of *desc = &w->desc;
  int64_t inner = desc->turned_a ? w->a.rows : w->a.columns;
  memset(w->scratch, 0x5a, SCRATCH);
  for (int32_t batch = 0; batch < w->d.batches; batch++)
    for (int64_t column = 0; column < w->d.columns; column++)
      for (int64_t row = 0; row < w->d.rows; row++) {
        double sum = 0;
        for (int64_t k = 0; k < inner; k++) {
          if (w->in_place && k % PART == 0) /* a round trip through memory */
            sum = rounded((number)number_of(w->d.type), sum);
          sum += element(&w->a, w->from_a, batch, desc->turned_a ? k : row,
                         desc->turned_a ? row : k) *
                 element(&w->b, w->from_b, batch, desc->turned_b ? column : k,
                         desc->turned_b ? k : column);
        }
        sum *= w->alpha;
        if (w->beta != 0)
          sum += w->beta * element(&w->c, w->from_c, batch, row, column);
        if (desc->epilogue & LT_EPILOGUE_BIAS)
          sum += load((number)number_of(w->d.type),
                      (const void *)(uintptr_t)desc->bias, row);
        if (desc->epilogue & LT_EPILOGUE_GELU)
          sum *= 0.5 * (1 + tanh(0.7978845608028654 *
                                 (sum + 0.044715 * sum * sum * sum)));
        store((number)number_of(w->d.type), w->to,
              batch * w->d.step + column * w->d.leading + row, sum);
      }
}

static double scale_of(int type, const void *value) {
  return load((number)number_of(type), value, 0);
}

TELL("cublaslt: %u products\n")

API int cublasLtMatmul(lt_handle handle, lt_desc desc, const void *alpha,
                       const void *a, lt_layout a_layout, const void *b,
                       lt_layout b_layout, const void *beta, const void *c,
                       lt_layout c_layout, void *d, lt_layout d_layout,
                       const lt_algo *algo, void *workspace, size_t size,
                       cu_stream stream) {
  int status = check(desc, a_layout, b_layout, d_layout);
  if (status != OK) return status;
  if (!handle || algo->data[0] != CHOSEN || size < SCRATCH || !workspace ||
      ((uintptr_t)a | (uintptr_t)b | (uintptr_t)c | (uintptr_t)d) % 16)
    return INVALID;
  work w = {.desc = *desc,
            .a = *a_layout,
            .b = *b_layout,
            .c = *c_layout,
            .d = *d_layout,
            .alpha = scale_of(desc->scale, alpha),
            .beta = scale_of(desc->scale, beta),
            .in_place = algo->data[1] != 0,
            .from_a = a,
            .from_b = b,
            .from_c = c,
            .to = d,
            .scratch = workspace};
  return enqueue(stream, run, &w, sizeof w) ? OK : EXECUTION_FAILED;
}
