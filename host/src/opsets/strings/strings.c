/* strings.c - ops whose elements are strings: ONNX's StringNormalizer, StringConcat, StringSplit
 * and RegexFullMatch, and ONNX Runtime's Tokenizer. */
#include <locale.h>
#include <wctype.h>

#include "device/context.h"
#include "memory/access.h"
#include "ops/runtime.h"
#include "opsets/shapes.h"
#include "opsets/strings/text.h"
#include "opsets/tables.h"
#include "passes/work.h"
#include "threads/cancel.h"

const char *const *keel_attr_strings(const keel_opdef *op, const char *name,
                                     int64_t *out_count) {
  const keel_node_attr *attr = keel_attr_find(op, name);
  bool there = attr && attr->value.kind == KD_ATTR_STRINGS;
  *out_count = there ? (int64_t)attr->value.count : 0;
  return there ? attr->value.strings : NULL;
}

#define WORK 20 /* nanoseconds that a string takes at least, about */

/* Strings of unknown number under construction; text of their own is in the arena. */
typedef struct pieces {
  keel_piece *list;
  int64_t count, capacity;
  keel_arena arena;
  keel_context *context;
  uint64_t counted; /* bytes of the context's limit */
  uint64_t pace;    /* of keel_go_on */
} pieces;

static keel_status count_bytes(pieces *all, uint64_t bytes) {
  KEEL_TRY(keel_heap_reserve(all->context, bytes));
  all->counted += bytes;
  return KD_OK;
}

/* Room for text; NULL without memory, or if the run ends: *out_status has the reason. */
static char *take_text(pieces *all, uint64_t size, keel_status *out_status) {
  *out_status = keel_go_on(&all->pace, size + WORK);
  if (*out_status == KD_OK) *out_status = count_bytes(all, size + 1);
  char *text = *out_status == KD_OK
                   ? keel_arena_take(&all->arena, (size_t)size + 1)
                   : NULL;
  if (!text && *out_status == KD_OK) *out_status = KD_OUT_OF_MEMORY;
  return text;
}

static keel_status strings_add(pieces *all, keel_piece piece) {
  KEEL_TRY(keel_go_on(&all->pace, piece.size + WORK));
  if (all->count == all->capacity) {
    int64_t capacity = all->capacity * 2 + 16;
    KEEL_TRY(count_bytes(
        all, (uint64_t)(capacity - all->capacity) * sizeof *all->list));
    keel_piece *list = realloc(all->list, (size_t)capacity * sizeof *list);
    if (!list) return keel_no_memory((uint64_t)capacity * sizeof *list);
    all->list = list;
    all->capacity = capacity;
  }
  all->list[all->count++] = piece;
  return KD_OK;
}

static void strings_drop(pieces *all) {
  free(all->list);
  keel_arena_free(&all->arena);
  if (all->counted) keel_heap_give_back(all->context, all->counted);
}

/* A list of as many, counted in `all`, which owns it. */
static keel_status make_list(pieces *all, int64_t count) {
  KEEL_TRY(count_bytes(all, ((uint64_t)count + 1) * sizeof *all->list));
  all->list = keel_pieces_new(count);
  return all->list ? KD_OK : KD_OUT_OF_MEMORY;
}

/* A tensor of them: [count], or [1, count], or of other dimensions. */
static keel_status strings_give(keel_host_call *call, uint32_t rank,
                                const int64_t *dims, const keel_piece *list) {
  const keel_type *type = NULL;
  KEEL_TRY(keel_type_of(KD_STRING, rank, dims, &type));
  return keel_strings_tensor(call->context, type, list, &call->outputs[0]);
}

static keel_status need_strings(const keel_host_call *call) {
  for (uint32_t i = 0; i < call->input_count; i++)
    if (!keel_is_strings(call->inputs[i]))
      return keel_call_fail(call, KD_INVALID_ARGUMENT,
                            "input %u is not a tensor of strings", (unsigned)i);
  return KD_OK;
}

/* X is [C] or [N, C]. */
static keel_status need_rows(const keel_host_call *call, bool one) {
  const keel_type *x = call->inputs[0]->type;
  if (x->rank == 1 || (x->rank == 2 && (!one || x->dims[0] == 1))) return KD_OK;
  return keel_call_fail(call, KD_INVALID_ARGUMENT, "X must be [C] or [%s, C]",
                        one ? "1" : "N");
}

/* ---- StringNormalizer -------------------------------------------------------------- */

typedef struct normalizer {
  locale_t locale;
  pieces stopwords; /* sorted; as they are compared */
  bool cased;
  wint_t (*to)(wint_t point, locale_t locale); /* NULL: letters stay */
} normalizer;

/* The string with each letter changed. */
static keel_status change(const normalizer *how, pieces *all,
                          wint_t (*to)(wint_t point, locale_t locale),
                          keel_piece from, keel_piece *out_piece) {
  const char *at = from.at, *end = from.at + from.size;
  /* a code point has up to 4 bytes, and each has one at least */
  keel_status status = KD_OUT_OF_MEMORY;
  char *text =
      from.size < SIZE_MAX / 4 ? take_text(all, from.size * 4, &status) : NULL;
  if (!text) return status;
  uint64_t size = 0;
  while (at < end) {
    uint32_t bytes = 0, point = keel_utf8_get(at, end, &bytes);
    if (bytes > 1 || point < 0x80)
      point = (uint32_t)to((wint_t)point, how->locale);
    size += keel_utf8_put(point, text + size);
    at += bytes;
  }
  *out_piece = (keel_piece){text, size};
  return KD_OK;
}

static int strings_compare(const void *a, const void *b) {
  return keel_piece_compare(a, b);
}

/* The locale by its name, or one that knows all letters; (locale_t)0 without either. */
static locale_t find_locale(const char *name) {
  const char *const names[] = {name, "C.UTF-8", "en_US.UTF-8"};
  for (size_t i = *name ? 0 : 1; i < KEEL_COUNT_OF(names); i++) {
    locale_t found = newlocale(LC_CTYPE_MASK, names[i], (locale_t)0);
    if (found) return found;
  }
  return newlocale(LC_CTYPE_MASK, "C", (locale_t)0);
}

static keel_status read_stopwords(const keel_opdef *op, normalizer *how) {
  int64_t count = 0;
  const char *const *words = keel_attr_strings(op, "stopwords", &count);
  for (int64_t i = 0; i < count; i++) {
    keel_piece word = {words[i], strlen(words[i])};
    if (!how->cased)
      KEEL_TRY(change(how, &how->stopwords, towlower_l, word, &word));
    KEEL_TRY(strings_add(&how->stopwords, word));
  }
  if (count)
    qsort(how->stopwords.list, (size_t)count, sizeof *how->stopwords.list,
          strings_compare);
  return KD_OK;
}

static keel_status is_stopword(const normalizer *how, pieces *all,
                               keel_piece word, bool *out_is) {
  *out_is = false;
  if (!how->stopwords.count) return KD_OK;
  if (!how->cased) KEEL_TRY(change(how, all, towlower_l, word, &word));
  *out_is = bsearch(&word, how->stopwords.list, (size_t)how->stopwords.count,
                    sizeof word, strings_compare) != NULL;
  return KD_OK;
}

static keel_status normalize(const normalizer *how, const keel_strings *from,
                             pieces *kept) {
  for (int64_t i = 0; i < from->count; i++) {
    keel_piece word = keel_strings_get(from, i);
    bool stopped = false;
    KEEL_TRY(is_stopword(how, kept, word, &stopped));
    if (stopped) continue;
    if (how->to) KEEL_TRY(change(how, kept, how->to, word, &word));
    KEEL_TRY(strings_add(kept, word));
  }
  /* where nothing is left there is an empty string */
  return kept->count ? KD_OK : strings_add(kept, (keel_piece){"", 0});
}

static keel_status run_string_normalizer(keel_host_call *call) {
  KEEL_TRY(need_strings(call));
  KEEL_TRY(need_rows(call, true));
  const char *action = keel_attr_string(call->op, "case_change_action", "NONE");
  normalizer how = {
      .cased = keel_attr_int(call->op, "is_case_sensitive", 0) != 0,
      .to = !strcmp(action, "LOWER")   ? towlower_l
            : !strcmp(action, "UPPER") ? towupper_l
                                       : NULL};
  how.locale = find_locale(keel_attr_string(call->op, "locale", ""));
  if (!how.locale) return keel_no_memory(1);
  pieces kept = {.context = call->context};
  how.stopwords.context = call->context;
  keel_status status = read_stopwords(call->op, &how);
  if (status == KD_OK)
    status = normalize(&how, call->inputs[0]->strings, &kept);
  const int64_t dims[] = {1, kept.count};
  bool row = call->inputs[0]->type->rank == 2;
  if (status == KD_OK)
    status = strings_give(call, row ? 2 : 1, row ? dims : dims + 1, kept.list);
  strings_drop(&kept);
  strings_drop(&how.stopwords);
  freelocale(how.locale);
  return status;
}

/* ---- StringConcat ------------------------------------------------------------------ */

/* Which element of an input goes to each element of the result, one after the other. */
typedef struct walk {
  const keel_type *to;
  int64_t at[KD_MAX_RANK], steps[KD_MAX_RANK], place;
} walk;

static walk walk_of(const keel_type *from, const keel_type *to) {
  walk result = {.to = to};
  int64_t step = 1;
  for (uint32_t back = 1; back <= from->rank; back++) {
    int64_t dim = from->dims[from->rank - back];
    result.steps[to->rank - back] = dim == 1 ? 0 : step;
    step *= dim;
  }
  return result;
}

static void next(walk *w) {
  for (uint32_t d = w->to->rank; d-- > 0;) {
    w->place += w->steps[d];
    if (++w->at[d] < w->to->dims[d]) return;
    w->place -= w->steps[d] * w->at[d];
    w->at[d] = 0;
  }
}

static keel_status strings_join(pieces *all, keel_piece a, keel_piece b,
                                keel_piece *out_piece) {
  uint64_t size = a.size + b.size;
  keel_status status = KD_OK;
  char *text = take_text(all, size, &status);
  if (!text) return status;
  if (a.size) memcpy(text, a.at, a.size);
  if (b.size) memcpy(text + a.size, b.at, b.size);
  *out_piece = (keel_piece){text, size};
  return KD_OK;
}

static keel_status run_string_concat(keel_host_call *call) {
  KEEL_TRY(need_strings(call));
  const keel_tensor *a = call->inputs[0], *b = call->inputs[1];
  const keel_type *type = call->types[0];
  walk from_a = walk_of(a->type, type), from_b = walk_of(b->type, type);
  pieces made = {.context = call->context};
  keel_status status = make_list(&made, type->elements);
  for (int64_t i = 0; i < type->elements && status == KD_OK; i++) {
    status =
        strings_join(&made, keel_strings_get(a->strings, from_a.place),
                     keel_strings_get(b->strings, from_b.place), &made.list[i]);
    next(&from_a);
    next(&from_b);
  }
  if (status == KD_OK)
    status =
        keel_strings_tensor(call->context, type, made.list, &call->outputs[0]);
  strings_drop(&made);
  return status;
}

/* ---- StringSplit ------------------------------------------------------------------- */

static bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* By blanks, of which those around words are left out; the last part keeps those behind it where
 * `most` ends the splitting, as Python's str.split does. */
static keel_status split_blanks(keel_piece from, int64_t most, pieces *parts) {
  const char *at = from.at, *end = from.at + from.size;
  for (int64_t done = 0;; done++) {
    while (at < end && is_blank(*at))
      at++;
    if (at == end) return KD_OK;
    const char *begin = at;
    if (done == most)
      at = end;
    else
      while (at < end && !is_blank(*at))
        at++;
    KEEL_TRY(strings_add(parts, (keel_piece){begin, (uint64_t)(at - begin)}));
  }
}

static keel_status split_by(keel_piece from, keel_piece by, int64_t most,
                            pieces *parts) {
  const char *at = from.at, *end = from.at + from.size;
  for (int64_t done = 0; done != most; done++) {
    const char *cut = memmem(at, (size_t)(end - at), by.at, by.size);
    if (!cut) break;
    KEEL_TRY(strings_add(parts, (keel_piece){at, (uint64_t)(cut - at)}));
    at = cut + by.size;
  }
  return strings_add(parts, (keel_piece){at, (uint64_t)(end - at)});
}

/* Y: the parts of each string as its last dimension, filled up with empty ones. */
static keel_status give_parts(keel_host_call *call, const int64_t *counts,
                              const pieces *parts) {
  const keel_type *x = call->inputs[0]->type, *type = NULL;
  int64_t dims[KD_MAX_RANK + 1], widest = 0, from = 0;
  for (int64_t i = 0; i < x->elements; i++)
    if (counts[i] > widest) widest = counts[i];
  if (x->rank) memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[x->rank] = widest;
  KEEL_TRY(keel_type_of(KD_STRING, x->rank + 1, dims, &type));
  pieces made = {.context = call->context};
  keel_status status = make_list(&made, type->elements);
  for (int64_t i = 0; i < x->elements && status == KD_OK; i++) {
    for (int64_t k = 0; k < widest; k++)
      made.list[i * widest + k] =
          k < counts[i] ? parts->list[from++] : (keel_piece){"", 0};
    status = keel_go_on(&made.pace, (uint64_t)widest);
  }
  if (status == KD_OK)
    status =
        keel_strings_tensor(call->context, type, made.list, &call->outputs[0]);
  strings_drop(&made);
  return status;
}

static keel_status run_string_split(keel_host_call *call) {
  KEEL_TRY(need_strings(call));
  const keel_tensor *x = call->inputs[0];
  const char *delimiter = keel_attr_string(call->op, "delimiter", "");
  int64_t most = keel_attr_int(call->op, "maxsplit", -1);
  keel_tensor *counts = NULL;
  pieces parts = {.context = call->context};
  if (most < 0 && keel_attr_find(call->op, "maxsplit"))
    return keel_call_fail(call, KD_INVALID_ARGUMENT,
                          "maxsplit is %lld; leave it out to split everywhere",
                          (long long)most);
  KEEL_TRY(keel_tensor_create(call->context, KD_I64, x->type->rank,
                              x->type->dims, NULL, &counts));
  keel_status status = KD_OK;
  for (int64_t i = 0; i < x->type->elements && status == KD_OK; i++) {
    keel_piece from = keel_strings_get(x->strings, i);
    int64_t before = parts.count;
    status = *delimiter
                 ? split_by(from, (keel_piece){delimiter, strlen(delimiter)},
                            most, &parts)
                 : split_blanks(from, most, &parts);
    ((int64_t *)counts->data)[i] = parts.count - before;
  }
  if (status == KD_OK) status = give_parts(call, counts->data, &parts);
  strings_drop(&parts);
  if (status == KD_OK && call->output_count > 1)
    call->outputs[1] = keel_tensor_retain(counts);
  keel_tensor_release(counts);
  return status;
}

/* ---- RegexFullMatch ---------------------------------------------------------------- */

static keel_status make_pattern(const keel_opdef *op, void **out_made) {
  return keel_regex_create(keel_attr_string(op, "pattern", ""),
                           (keel_regex **)(void *)out_made);
}

static keel_status run_regex_full_match(keel_host_call *call) {
  KEEL_TRY(need_strings(call));
  const keel_strings *x = call->inputs[0]->strings;
  const void *regex = NULL;
  keel_tensor *found = NULL;
  uint64_t pace = 0;
  KEEL_TRY(keel_opdef_prepare(call->op, make_pattern, keel_regex_free, &regex));
  KEEL_TRY(keel_tensor_on(&call->context->host, call->types[0], &found));
  keel_status status = KD_OK;
  for (int64_t i = 0; i < x->count && status == KD_OK; i++) {
    bool matches = false;
    status = keel_go_on(&pace, WORK);
    if (status == KD_OK)
      status = keel_regex_matches(regex, keel_strings_get(x, i), &matches);
    ((uint8_t *)found->data)[i] = matches;
  }
  if (status == KD_OK)
    call->outputs[0] = found;
  else
    keel_tensor_release(found);
  return status;
}

/* ---- Tokenizer ---------------------------------------------------------------------- */

/* Expressions that tokens match, or that are between them. */
typedef struct tokens {
  keel_regex *token;       /* NULL: separators */
  keel_regex **separators; /* one after the other */
  int64_t count;
  bool letters; /* each code point is a token */
} tokens;

static void drop_tokens(void *self) {
  tokens *all = self;
  if (!all) return;
  keel_regex_free(all->token);
  for (int64_t i = 0; all->separators && i < all->count; i++)
    keel_regex_free(all->separators[i]);
  free(all->separators);
  free(all);
}

static keel_status read_tokens(const keel_opdef *op, tokens *all) {
  const char *token = keel_attr_string(op, "tokenexp", "");
  const char *const *list = keel_attr_strings(op, "separators", &all->count);
  if (*token && all->count)
    return keel_fail(KD_INVALID_ARGUMENT,
                     "Tokenizer has tokenexp or separators, not both");
  if (*token) return keel_regex_create(token, &all->token);
  all->letters = all->count == 1 && !*list[0];
  if (all->letters) return KD_OK;
  all->separators = calloc((size_t)all->count + 1, sizeof *all->separators);
  if (!all->separators) return keel_no_memory((uint64_t)all->count);
  for (int64_t i = 0; i < all->count; i++)
    KEEL_TRY(keel_regex_create(list[i], &all->separators[i]));
  return KD_OK;
}

static keel_status make_tokens(const keel_opdef *op, void **out_made) {
  tokens *all = calloc(1, sizeof *all);
  if (!all) return keel_no_memory(sizeof *all);
  keel_status status = read_tokens(op, all);
  if (status == KD_OK)
    *out_made = all;
  else
    drop_tokens(all);
  return status;
}

static int64_t count_points(keel_piece piece) {
  int64_t count = 0;
  const char *end = piece.at + piece.size;
  for (uint32_t bytes = 0; piece.at < end; piece.at += bytes, count++)
    keel_utf8_get(piece.at, end, &bytes);
  return count;
}

/* A token, unless it has too few characters. */
static keel_status strings_keep(pieces *to, keel_piece token, int64_t least) {
  return token.size && count_points(token) >= least ? strings_add(to, token)
                                                    : KD_OK;
}

/* The parts of a text between matches of a separator; those of no bytes are left out. */
static keel_status strings_cut(const keel_regex *separator, keel_piece text,
                               pieces *to) {
  uint64_t from = 0;
  for (;;) {
    keel_piece found;
    KEEL_TRY(keel_regex_find(separator, text, from, &found));
    uint64_t end = found.at ? (uint64_t)(found.at - text.at) : text.size;
    if (end > from)
      KEEL_TRY(strings_add(to, (keel_piece){text.at + from, end - from}));
    if (!found.at) return KD_OK;
    from = end + found.size;
  }
}

/* The parts of a text by each separator in turn. */
static keel_status cut_by_all(const tokens *all, keel_piece text, int64_t least,
                              pieces *to) {
  pieces parts = {.context = to->context};
  keel_status status = strings_add(&parts, text);
  for (int64_t level = 0; level < all->count && status == KD_OK; level++) {
    pieces finer = {.context = to->context, .pace = parts.pace};
    for (int64_t i = 0; i < parts.count && status == KD_OK; i++)
      status = strings_cut(all->separators[level], parts.list[i], &finer);
    strings_drop(&parts);
    parts = finer;
  }
  for (int64_t i = 0; i < parts.count && status == KD_OK; i++)
    status = strings_keep(to, parts.list[i], least);
  strings_drop(&parts);
  return status;
}

static keel_status split_letters(keel_piece text, pieces *to) {
  const char *end = text.at + text.size;
  for (uint32_t bytes = 0; text.at < end; text.at += bytes) {
    keel_utf8_get(text.at, end, &bytes);
    KEEL_TRY(strings_add(to, (keel_piece){text.at, bytes}));
  }
  return KD_OK;
}

static keel_status tokenize(const tokens *all, keel_piece text, int64_t least,
                            pieces *to) {
  if (all->letters) return split_letters(text, to);
  if (!all->token) return cut_by_all(all, text, least, to);
  uint64_t from = 0;
  for (;;) {
    keel_piece found;
    KEEL_TRY(keel_regex_find(all->token, text, from, &found));
    if (!found.at) return KD_OK;
    KEEL_TRY(strings_keep(to, found, least));
    from = (uint64_t)(found.at - text.at) + found.size;
  }
}

/* The tokens of each string as its last dimension, between marks where they are asked for, and
 * filled up. */
static keel_status give_tokens(keel_host_call *call, const int64_t *ends,
                               const pieces *found) {
  const keel_piece marks[] = {{"\x02", 1}, {"\x03", 1}};
  const char *pad = keel_attr_string(call->op, "pad_value", "");
  bool mark = keel_attr_int(call->op, "mark", 0) != 0;
  const keel_type *x = call->inputs[0]->type, *type = NULL;
  int64_t dims[3], widest = 0;
  for (int64_t i = 0; i < x->elements; i++) {
    int64_t count = ends[i] - (i ? ends[i - 1] : 0);
    if (count > widest) widest = count;
  }
  widest += mark && x->elements ? 2 : 0;
  memcpy(dims, x->dims, x->rank * sizeof *dims);
  dims[x->rank] = widest;
  KEEL_TRY(keel_type_of(KD_STRING, x->rank + 1, dims, &type));
  pieces made = {.context = call->context};
  keel_status status = make_list(&made, type->elements);
  keel_piece *at = made.list;
  for (int64_t i = 0; i < x->elements && status == KD_OK; i++) {
    keel_piece *end = at + widest;
    status = keel_go_on(&made.pace, (uint64_t)widest);
    if (mark) *at++ = marks[0];
    for (int64_t k = i ? ends[i - 1] : 0; k < ends[i]; k++)
      *at++ = found->list[k];
    if (mark) *at++ = marks[1];
    while (at < end)
      *at++ = (keel_piece){pad, strlen(pad)};
  }
  if (status == KD_OK)
    status =
        keel_strings_tensor(call->context, type, made.list, &call->outputs[0]);
  strings_drop(&made);
  return status;
}

static keel_status run_tokenizer(keel_host_call *call) {
  KEEL_TRY(need_strings(call));
  KEEL_TRY(need_rows(call, false));
  const keel_strings *x = call->inputs[0]->strings;
  int64_t least = keel_attr_int(call->op, "mincharnum", 1);
  const void *how = NULL;
  KEEL_TRY(keel_opdef_prepare(call->op, make_tokens, drop_tokens, &how));
  pieces found = {.context = call->context};
  int64_t *ends = calloc((size_t)x->count + 1, sizeof *ends);
  keel_status status =
      ends ? KD_OK : keel_no_memory((uint64_t)x->count * sizeof *ends);
  for (int64_t i = 0; i < x->count && status == KD_OK; i++) {
    status = tokenize(how, keel_strings_get(x, i), least, &found);
    ends[i] = found.count;
  }
  if (status == KD_OK) status = give_tokens(call, ends, &found);
  free(ends);
  strings_drop(&found);
  return status;
}

/* ---- rows ---- */

static const keel_schema_row rows[] = {
    RUNTIME("StringConcat", 20, "X:string Y:string -> Z:string", "", broadcast,
            0, run_string_concat),
    RUNTIME("StringNormalizer", 10, "X:string -> Y:string",
            "case_change_action:s=NONE|LOWER|UPPER is_case_sensitive:i=0"
            " locale:s stopwords:S",
            by_content, 0, run_string_normalizer),
    RUNTIME("StringSplit", 20, "X:string -> Y:string Z:i64",
            "delimiter:s maxsplit:i", by_content, 0, run_string_split),
    RUNTIME("RegexFullMatch", 20, "X:string -> Y:bool", "pattern:s", same, 0,
            run_regex_full_match),
    {"com.microsoft", "Tokenizer", 1, "any", "X:string -> Y:string",
     "mark:i! mincharnum:i! pad_value:s! separators:S stopwords:S tokenexp:s",
     keel_shape_by_content, 0, 0, KEEL_BY_HOST, run_tokenizer},
};

#define MATCH_STEPS 10000000 /* of one search of an expression, at most */

static uint64_t match_steps(const keel_work *work) {
  return keel_times(work->read, MATCH_STEPS);
}

static const keel_op_rule rules[] = {
    {"RegexFullMatch", .steps = match_steps},
    {"com.microsoft::Tokenizer", .steps = match_steps},
};

const keel_op_table keel_ops_strings = {KEEL_TABLE_ROWS(rows),
                                        KEEL_TABLE_RULES(rules)};
