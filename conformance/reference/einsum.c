/* einsum.c - sums over the axes that the result does not have (ONNX, Einsum-12: the
 * notation of NumPy's einsum with an ellipsis).
 *
 * Every letter, and every dimension under an ellipsis, is an axis of one joint space. A
 * tensor is a stride for each axis, zero where it does not have it: each point of the
 * joint space is a product of elements, and is added to the element of the result that
 * it falls on. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "reference/reference.h"

#define LETTERS \
  128 /* axes of letters, by their code; then those of the ellipsis */
#define AXES   (LETTERS + KD_MAX_RANK)
#define INPUTS 32

typedef struct space {
  int64_t size[AXES];
  uint32_t met[AXES]; /* by inputs */
  int64_t in[INPUTS][AXES], out[AXES];
} space;

/* A term, read from its end: dimensions come with their strides, and the ellipsis has
 * those that are left over. False where letters and dimensions do not match. */
static bool read_term(const value *of, const char *text, size_t length,
                      int64_t *strides, space *s, bool input) {
  int64_t step = 1;
  uint32_t d = of->rank;
  for (size_t at = length; at-- > 0;) {
    uint32_t first = d, last = d; /* dimensions of this character */
    unsigned char c = (unsigned char)text[at];
    if (isalpha(c)) {
      first = d - 1;
    } else if (c == '.') {
      uint32_t before = 0;
      at = at > 2 ? at - 2 : 0;
      for (size_t i = 0; i < at; i++)
        before += isalpha((unsigned char)text[i]) != 0;
      first = before;
    }
    if (first > last) return false;
    for (; d > first; d--) {
      uint32_t axis = isalpha(c) ? c : LETTERS + (last - d);
      int64_t size = of->dims[d - 1];
      if (size != 1) strides[axis] += step;
      if (size != 1 && input) s->size[axis] = size;
      if (input) s->met[axis]++;
      step *= size;
    }
  }
  return d == 0;
}

/* Without an arrow the result has the ellipsis, and the letters that are met once in the
 * order of the alphabet. */
static bool implied_result(const value *out, space *s) {
  char text[LETTERS + 4] = "...";
  size_t length = 3;
  for (uint32_t c = 0; c < LETTERS; c++)
    if (s->met[c] == 1) text[length++] = (char)c;
  return read_term(out, text, length, s->out, s, false);
}

static bool read_equation(const ref_call *call, space *s) {
  const char *text = call->read->attr_string(call->node, "equation", "");
  const char *arrow = strstr(text, "->");
  for (uint32_t i = 0; i < AXES; i++)
    s->size[i] = 1;
  for (uint32_t i = 0; i < call->in_count; i++) {
    size_t length = strcspn(text, ",-");
    if (i == INPUTS || !read_term(call->in[i], text, length, s->in[i], s, true))
      return false;
    text += length + (text[length] == ',');
  }
  if (!arrow) return implied_result(call->out[0], s);
  return read_term(call->out[0], arrow + 2, strlen(arrow + 2), s->out, s,
                   false);
}

/* An element of the result, on the way. */
typedef struct cell {
  ref_sum sum;
  uint64_t bits; /* of integers, which wrap */
  real size;     /* of what was added, without signs */
} cell;

static void add_point(const ref_call *call, const space *s, const int64_t *at,
                      cell *cells) {
  int64_t to = 0;
  real product = 1;
  uint64_t bits = 1;
  for (uint32_t a = 0; a < AXES; a++)
    to += at[a] * s->out[a];
  for (uint32_t i = 0; i < call->in_count; i++) {
    int64_t from = 0;
    for (uint32_t a = 0; a < AXES; a++)
      from += at[a] * s->in[i][a];
    real x = call->in[i]->x[from];
    product *= x;
    bits *= x < 0 ? (uint64_t)0 - (uint64_t)-x : (uint64_t)x;
  }
  cells[to].bits += bits;
  cells[to].size += fabsl(product);
  if (dtype_is_float(call->out[0]->dtype)) ref_add(&cells[to].sum, product);
}

static void einsum_put(const ref_call *call, value *out, int64_t i,
                       const cell *c) {
  if (out->dtype == KD_I64) {
    out->x[i] = (real)(int64_t)c->bits;
  } else if (out->dtype == KD_U64) {
    out->x[i] = (real)c->bits;
  } else if (!dtype_is_float(out->dtype)) {
    out->x[i] = dtype_round((real)c->bits, out->dtype);
  } else {
    ref_put(out, i, &c->sum, 1);
    /* of more than two factors, parts are rounded on the way */
    if (call->in_count > 2 && isfinite(c->size))
      out->slack[i] += 2 * (real)call->in_count * c->size;
  }
}

static bool run_einsum(ref_call *call) {
  value *out = call->out[0];
  space s = {0};
  int64_t at[AXES] = {0}, points = 1;
  if (!read_equation(call, &s)) return false;
  cell *cells = calloc((size_t)out->count + 1, sizeof *cells);
  if (!cells) return false;
  for (uint32_t a = 0; a < AXES; a++)
    points *= s.size[a];
  for (; points > 0; points--) {
    add_point(call, &s, at, cells);
    for (uint32_t a = 0; a < AXES && ++at[a] == s.size[a]; a++)
      at[a] = 0;
  }
  for (int64_t i = 0; i < out->count; i++)
    einsum_put(call, out, i, &cells[i]);
  free(cells);
  return true;
}

const ref_op ref_einsum[] = {
    {NULL, "Einsum", REF_SUM, 0, run_einsum, false},
};
const uint32_t ref_einsum_count =
    (uint32_t)(sizeof ref_einsum / sizeof *ref_einsum);
