/* tfidf.c - TfIdfVectorizer (ONNX, opset 9): counts the n-grams of a pool in rows of tokens, which
 * are strings or integers.
 *
 * The pool becomes, once for an op, numbers of its tokens and a table of its n-grams by these
 * numbers. A row becomes numbers too, and each run of them is looked up. */
#include "device/context.h"
#include "memory/access.h"
#include "ops/runtime.h"
#include "opsets/shapes.h"
#include "opsets/strings/text.h"
#include "opsets/tables.h"
#include "passes/work.h"
#include "threads/cancel.h"

/* A token of the pool: a string, or an integer. */
typedef struct token {
  keel_piece piece;
  int64_t integer;
  int64_t place; /* in the pool */
} token;

typedef struct gram {
  uint64_t hash;
  int64_t first, size; /* in `numbers` */
  int64_t index;       /* in the pool's n-grams; -1: the slot is free */
} gram;

typedef struct pool {
  bool strings;
  token *tokens; /* sorted, without duplicates */
  int64_t token_count;
  int64_t *numbers; /* of the pool's tokens, in its order */
  gram *slots;      /* a hash table */
  uint64_t slot_count;
  int64_t longest; /* tokens of the longest n-gram */
} pool;

static void drop_pool(void *self) {
  pool *all = self;
  if (!all) return;
  free(all->tokens);
  free(all->numbers);
  free(all->slots);
  free(all);
}

static int by_string(const void *a, const void *b) {
  return keel_piece_compare(&((const token *)a)->piece,
                            &((const token *)b)->piece);
}

static int by_integer(const void *a, const void *b) {
  int64_t x = ((const token *)a)->integer, y = ((const token *)b)->integer;
  return (x > y) - (x < y);
}

/* A token's number; -1: the pool has no such. */
static int64_t number_of(const pool *all, const token *wanted) {
  const token *found =
      all->token_count
          ? bsearch(wanted, all->tokens, (size_t)all->token_count,
                    sizeof *wanted, all->strings ? by_string : by_integer)
          : NULL;
  return found ? found - all->tokens : -1;
}

static keel_status number_tokens(pool *all, int64_t count) {
  int (*order)(const void *, const void *) =
      all->strings ? by_string : by_integer;
  all->numbers = calloc((size_t)count + 1, sizeof *all->numbers);
  if (!all->numbers)
    return keel_no_memory((uint64_t)count * sizeof *all->numbers);
  if (count) qsort(all->tokens, (size_t)count, sizeof *all->tokens, order);
  for (int64_t i = 0; i < count; i++) {
    const token *at = &all->tokens[i];
    bool same =
        all->token_count && !order(&all->tokens[all->token_count - 1], at);
    all->numbers[at->place] = all->token_count - same;
    if (!same) all->tokens[all->token_count++] = *at;
  }
  return KD_OK;
}

static keel_status read_tokens(const keel_opdef *op, pool *all,
                               int64_t *out_count) {
  int64_t count = 0;
  const int64_t *integers = NULL;
  const char *const *strings = keel_attr_strings(op, "pool_strings", &count);
  int64_t integer_count = keel_attr_ints(op, "pool_int64s", &integers);
  all->strings = strings != NULL;
  if (all->strings == (integer_count >= 0))
    return keel_fail(KD_INVALID_ARGUMENT,
                     "TfIdfVectorizer needs one of pool_strings and"
                     " pool_int64s");
  if (!all->strings) count = integer_count;
  all->tokens = calloc((size_t)count + 1, sizeof *all->tokens);
  if (!all->tokens) return keel_no_memory((uint64_t)count * sizeof(token));
  for (int64_t i = 0; i < count; i++) {
    all->tokens[i].place = i;
    if (strings)
      all->tokens[i].piece = (keel_piece){strings[i], strlen(strings[i])};
    else
      all->tokens[i].integer = integers[i];
  }
  *out_count = count;
  return number_tokens(all, count);
}

/* Of an n-gram: every `step`-th number from `at` on. */
static uint64_t hash_of(const int64_t *at, int64_t size, int64_t step) {
  uint64_t hash = KEEL_HASH_SEED;
  for (int64_t i = 0; i < size; i++)
    hash = keel_hash(hash, &at[i * step], sizeof *at);
  return hash;
}

/* The slot of such an n-gram, or a free one. */
static gram *tfidf_slot_of(const pool *all, uint64_t hash, const int64_t *at,
                           int64_t size, int64_t step) {
  for (uint64_t place = hash;; place++) {
    gram *slot = &all->slots[place & (all->slot_count - 1)];
    bool same = slot->index >= 0 && slot->hash == hash && slot->size == size;
    for (int64_t i = 0; i < size && same; i++)
      same = all->numbers[slot->first + i] == at[i * step];
    if (same || slot->index < 0) return slot;
  }
}

/* Lengths of the pool's parts, of n-grams of 1, 2, ... tokens, and how many n-grams there are. */
static keel_status count_grams(const keel_opdef *op, int64_t tokens,
                               int64_t *out_grams) {
  const int64_t *starts = NULL, *indices = NULL;
  int64_t parts = keel_attr_ints(op, "ngram_counts", &starts), grams = 0;
  int64_t indexed = keel_attr_ints(op, "ngram_indexes", &indices);
  for (int64_t i = 0; i < parts; i++) {
    int64_t end = i + 1 < parts ? starts[i + 1] : tokens;
    if (starts[i] < 0 || end < starts[i] || end > tokens ||
        (end - starts[i]) % (i + 1))
      return keel_fail(KD_INVALID_ARGUMENT,
                       "TfIdfVectorizer: ngram_counts does not divide the"
                       " pool's %lld tokens into n-grams",
                       (long long)tokens);
    grams += (end - starts[i]) / (i + 1);
  }
  if (grams != indexed)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "TfIdfVectorizer: the pool has %lld n-grams, and"
                     " ngram_indexes %lld",
                     (long long)grams, (long long)indexed);
  *out_grams = grams;
  return KD_OK;
}

static keel_status fill_pool(const keel_opdef *op, pool *all) {
  const int64_t *starts = NULL;
  int64_t parts = keel_attr_ints(op, "ngram_counts", &starts), count = 0;
  int64_t grams = 0, index = 0;
  KEEL_TRY(read_tokens(op, all, &count));
  KEEL_TRY(count_grams(op, count, &grams));
  all->longest = parts;
  for (all->slot_count = 16; all->slot_count < (uint64_t)grams * 2;)
    all->slot_count *= 2;
  all->slots = calloc(all->slot_count, sizeof *all->slots);
  if (!all->slots) return keel_no_memory(all->slot_count * sizeof *all->slots);
  for (uint64_t i = 0; i < all->slot_count; i++)
    all->slots[i].index = -1;
  for (int64_t i = 0; i < parts; i++) {
    int64_t end = i + 1 < parts ? starts[i + 1] : count;
    for (int64_t at = starts[i]; at < end; at += i + 1, index++) {
      uint64_t hash = hash_of(all->numbers + at, i + 1, 1);
      gram *slot = tfidf_slot_of(all, hash, all->numbers + at, i + 1, 1);
      if (slot->index >= 0)
        return keel_fail(KD_INVALID_ARGUMENT,
                         "TfIdfVectorizer: the pool's n-gram %lld is there"
                         " twice",
                         (long long)index);
      *slot = (gram){hash, at, i + 1, index};
    }
  }
  return KD_OK;
}

static keel_status make_pool(const keel_opdef *op, void **out_made) {
  pool *all = calloc(1, sizeof *all);
  if (!all) return keel_no_memory(sizeof *all);
  keel_status status = fill_pool(op, all);
  if (status == KD_OK)
    *out_made = all;
  else
    drop_pool(all);
  return status;
}

/* ---- a row ------------------------------------------------------------------------- */

typedef struct counting {
  const pool *pool;
  const int64_t *indices;
  int64_t shortest, longest, skips, width;
  const float *weights; /* by n-gram; NULL: 1 */
  bool counts;          /* else only whether it is there */
  uint64_t pace;        /* of keel_go_on */
} counting;

/* An n-gram is there once more. */
static void tfidf_note(const counting *how, int64_t gram, float *to) {
  float *place = to + how->indices[gram];
  float weight = how->weights ? how->weights[gram] : 1;
  *place = how->counts ? *place + weight : weight;
}

static keel_status count_row(counting *how, const int64_t *row, int64_t length,
                             float *to) {
  for (int64_t size = how->shortest; size <= how->longest; size++)
    for (int64_t step = 1; step <= how->skips + 1; step++) {
      if (size == 1 && step > 1) break; /* nothing to skip */
      if (size > 1 && step > (length - 1) / (size - 1)) break;
      for (int64_t at = 0; at + (size - 1) * step < length; at++) {
        KEEL_TRY(keel_go_on(&how->pace, 10 + 5 * (uint64_t)size));
        uint64_t hash = hash_of(row + at, size, step);
        const gram *found =
            tfidf_slot_of(how->pool, hash, row + at, size, step);
        if (found->index >= 0) tfidf_note(how, found->index, to);
      }
    }
  return KD_OK;
}

static keel_status number_row(const keel_host_call *call, counting *how,
                              const keel_tensor *x, int64_t from,
                              int64_t length, int64_t *row) {
  const pool *all = how->pool;
  kd_dtype dtype = x->type->dtype;
  if (all->strings != keel_is_strings(x))
    return keel_call_fail(
        call, KD_INVALID_ARGUMENT, "X is %s, and the pool is of %s",
        keel_dtype_name(dtype), all->strings ? "strings" : "integers");
  for (int64_t i = 0; i < length; i++) {
    token wanted = {0};
    KEEL_TRY(keel_go_on(&how->pace, 50));
    if (all->strings)
      wanted.piece = keel_strings_get(x->strings, from + i);
    else
      wanted.integer = dtype == KD_I64 ? ((const int64_t *)x->data)[from + i]
                                       : ((const int32_t *)x->data)[from + i];
    row[i] = number_of(all, &wanted);
  }
  return KD_OK;
}

static int64_t int_attr(const keel_host_call *call, const char *name) {
  return keel_attr_int(call->op, name, 0);
}

static keel_status read_how(const keel_host_call *call, counting *how) {
  const char *mode = keel_attr_string(call->op, "mode", "TF");
  const keel_node_attr *weights = keel_attr_find(call->op, "weights");
  int64_t width = call->types[0]->dims[call->types[0]->rank - 1];
  int64_t grams = keel_attr_ints(call->op, "ngram_indexes", &how->indices);
  how->width = width;
  how->shortest = int_attr(call, "min_gram_length");
  how->longest = int_attr(call, "max_gram_length");
  how->skips = int_attr(call, "max_skip_count");
  how->counts = strcmp(mode, "IDF") != 0;
  how->weights =
      weights && strcmp(mode, "TF") != 0 ? weights->value.floats : NULL;
  if (how->shortest < 1 || how->longest < how->shortest || how->skips < 0)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "n-grams of %lld to %lld tokens, with up to %lld"
                          " skipped between two",
                          (long long)how->shortest, (long long)how->longest,
                          (long long)how->skips);
  if (how->weights && (int64_t)weights->value.count != grams)
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "%u weights for %lld n-grams",
                          (unsigned)weights->value.count, (long long)grams);
  return KD_OK;
}

/* Longer n-grams than the pool has are not there. */
static void limit(counting *how, int64_t length) {
  if (how->longest > how->pool->longest) how->longest = how->pool->longest;
  if (how->longest > length) how->longest = length;
  if (how->skips > length) how->skips = length;
}

static keel_status count_rows(const keel_host_call *call, counting *how,
                              const keel_tensor *x, float *to) {
  const keel_type *type = x->type;
  int64_t length = type->dims[type->rank - 1];
  int64_t rows = type->rank == 2 ? type->dims[0] : 1;
  uint64_t bytes = ((uint64_t)length + 1) * sizeof(int64_t);
  KEEL_TRY(keel_heap_reserve(call->context, bytes));
  int64_t *row = calloc((size_t)length + 1, sizeof *row);
  keel_status status = row ? KD_OK : keel_no_memory(bytes);
  limit(how, length);
  for (int64_t i = 0; i < rows && status == KD_OK; i++) {
    status = number_row(call, how, x, i * length, length, row);
    if (status == KD_OK)
      status = count_row(how, row, length, to + i * how->width);
  }
  free(row);
  keel_heap_give_back(call->context, bytes);
  return status;
}

static keel_status run_tf_idf_vectorizer(keel_host_call *call) {
  const keel_type *type = call->types[0];
  keel_tensor *x = call->inputs[0], *here = NULL, *to = NULL;
  counting how = {0};
  const void *made = NULL;
  KEEL_TRY(read_how(call, &how));
  KEEL_TRY(keel_opdef_prepare(call->op, make_pool, drop_pool, &made));
  how.pool = made;
  KEEL_TRY(keel_tensor_create(call->context, KD_F32, type->rank, type->dims,
                              NULL, &to));
  keel_status status = keel_is_strings(x)
                           ? (here = keel_tensor_retain(x), KD_OK)
                           : keel_tensor_to_host(x, &here);
  if (status == KD_OK) status = count_rows(call, &how, here, to->data);
  keel_tensor_release(here);
  if (status == KD_OK)
    call->outputs[0] = to;
  else
    keel_tensor_release(to);
  return status;
}

/* Rows of X, and a column for each index that n-grams have. */
keel_status keel_shape_tf_idf(keel_infer *infer) {
  const keel_type *x = infer->in[0];
  const int64_t *indices = NULL;
  int64_t count = keel_attr_ints(infer->op, "ngram_indexes", &indices);
  int64_t dims[2] = {x->rank == 2 ? x->dims[0] : 1, 0};
  kd_dtype dtype = x->dtype;
  if (x->rank != 1 && x->rank != 2)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X must be [C] or [N, C]");
  if (dtype != KD_STRING && dtype != KD_I32 && dtype != KD_I64)
    return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                           "X must be strings, i32 or i64");
  for (int64_t i = 0; i < count; i++) {
    if (indices[i] < 0 || indices[i] >= INT32_MAX)
      return keel_infer_fail(infer, KD_INVALID_ARGUMENT,
                             "ngram_indexes has %lld", (long long)indices[i]);
    if (indices[i] >= dims[1]) dims[1] = indices[i] + 1;
  }
  return keel_infer_out(infer, 0, x->rank, x->rank == 2 ? dims : dims + 1);
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    RUNTIME("TfIdfVectorizer", 9, "X:any -> Y:f32",
            "max_gram_length:i! max_skip_count:i! min_gram_length:i!"
            " mode:s=TF|IDF|TFIDF ngram_counts:I! ngram_indexes:I!"
            " pool_int64s:I pool_strings:S weights:F",
            tf_idf, 0, run_tf_idf_vectorizer),
};

/* All pairs of what is read. */
static uint64_t pair_steps(const keel_work *work) {
  return keel_times(work->read, work->read);
}

static const keel_op_rule rules[] = {{"TfIdfVectorizer", .steps = pair_steps}};

const keel_op_table keel_ops_tf_idf = {KEEL_TABLE_ROWS(rows),
                                       KEEL_TABLE_RULES(rules)};
