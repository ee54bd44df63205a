/* equation.c - reads the equation of an Einsum. */
#include "opsets/onnx/math/equation.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool equation_refuse(keel_equation *e, const char *format, ...)
    KD_PRINTF(2, 3);

static bool equation_refuse(keel_equation *e, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(e->problem, sizeof e->problem, format, list);
  va_end(list);
  return false;
}

static bool equation_add(keel_equation *e, keel_labels *labels,
                         uint32_t label) {
  if (labels->rank == KD_MAX_RANK)
    return equation_refuse(e, "a term has more than %u dimensions",
                           (unsigned)KD_MAX_RANK);
  labels->at[labels->rank++] = (uint8_t)label;
  return true;
}

/* One term, whose "..." stands for `dots` dimensions. */
static bool read_term(keel_equation *e, const char *term, size_t size,
                      uint32_t dots, keel_labels *out) {
  for (size_t i = 0; i < size; i++) {
    unsigned char letter = (unsigned char)term[i];
    if (letter == ' ') continue;
    if (letter == '.') {
      if (size - i < 3 || term[i + 1] != '.' || term[i + 2] != '.')
        return equation_refuse(e,
                               "\".\" must be part of one \"...\", for the "
                               "dimensions without a letter");
      for (uint32_t d = dots; d-- > 0;)
        if (!equation_add(e, out, KEEL_DOTS + d)) return false;
      i += 2;
    } else if (letter >= KEEL_DOTS) {
      return equation_refuse(e, "a label is not a letter");
    } else if (!equation_add(e, out, letter)) {
      return false;
    }
  }
  return true;
}

/* Counts a dimension in, which broadcasts with those of its label. */
static bool equation_meet(keel_equation *e, uint32_t label, int64_t dim) {
  int64_t *size = &e->size[label];
  if (e->seen[label]++ == 0 || *size == 1) {
    *size = dim;
    return true;
  }
  if (dim == *size || dim == 1) return true;
  if (label >= KEEL_DOTS)
    return equation_refuse(e, "the \"...\" do not broadcast");
  return equation_refuse(e, "letter %c is %lld and %lld", (char)label,
                         (long long)*size, (long long)dim);
}

static bool read_operand(keel_equation *e, const char *term, size_t size,
                         const keel_type *type, uint32_t *dots) {
  keel_labels *labels = &e->in[e->count++];
  uint32_t letters = 0;
  for (size_t i = 0; i < size; i++)
    letters += term[i] != '.' && term[i] != ' ';
  if (letters > type->rank)
    return equation_refuse(e, "a term has more letters than dimensions");
  uint32_t here = memchr(term, '.', size) ? type->rank - letters : 0;
  if (here > *dots) *dots = here;
  if (!read_term(e, term, size, here, labels)) return false;
  if (labels->rank != type->rank)
    return equation_refuse(e, "a term has %s letters than dimensions",
                           labels->rank < type->rank ? "fewer" : "more");
  for (uint32_t d = 0; d < type->rank; d++)
    if (!equation_meet(e, labels->at[d], type->dims[d])) return false;
  return true;
}

/* Without an arrow: the dots, then the letters that are met once, by the alphabet. */
static bool imply_result(keel_equation *e, uint32_t dots) {
  if (!read_term(e, "...", 3, dots, &e->out)) return false;
  for (uint32_t letter = 0; letter < KEEL_DOTS; letter++)
    if (e->seen[letter] == 1 && !equation_add(e, &e->out, letter)) return false;
  return true;
}

static bool read_result(keel_equation *e, const char *term, uint32_t dots) {
  if (!read_term(e, term, strlen(term), dots, &e->out)) return false;
  for (uint32_t d = 0; d < e->out.rank; d++)
    if (!e->seen[e->out.at[d]])
      return equation_refuse(e, "letter %c is in no input", (char)e->out.at[d]);
  return true;
}

bool keel_equation_read(const char *text, const keel_type *const *types,
                        uint32_t count, keel_equation *out) {
  const char *arrow = strstr(text, "->");
  const char *end = arrow ? arrow : text + strlen(text);
  uint32_t dots = 0;
  memset(out, 0, sizeof *out);
  for (const char *at = text; at <= end;) {
    const char *comma = memchr(at, ',', (size_t)(end - at));
    const char *stop = comma ? comma : end;
    if (out->count == count)
      return equation_refuse(out, "it has more terms than inputs");
    if (out->count == KEEL_TERMS)
      return equation_refuse(out, "it has more than %d terms", KEEL_TERMS);
    if (!read_operand(out, at, (size_t)(stop - at), types[out->count], &dots))
      return false;
    at = stop + 1;
  }
  if (out->count != count)
    return equation_refuse(out, "it has %u terms", (unsigned)out->count);
  return arrow ? read_result(out, arrow + 2, dots) : imply_result(out, dots);
}
