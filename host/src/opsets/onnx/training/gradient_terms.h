/* gradient_terms.h - arithmetic, in which rules are written. */
#ifndef KEEL_GRADIENT_TERMS_H
#define KEEL_GRADIENT_TERMS_H

#include "opsets/onnx/training/gradient.h"

static inline uint32_t of(keel_gradient *g, const char *op, uint32_t a) {
  return keel_emit_unary(g->all, op, a);
}

static inline uint32_t two(keel_gradient *g, const char *op, uint32_t a,
                           uint32_t b) {
  return keel_emit_binary(g->all, op, a, b);
}

static inline uint32_t add(keel_gradient *g, uint32_t a, uint32_t b) {
  return two(g, "Add", a, b);
}

static inline uint32_t sub(keel_gradient *g, uint32_t a, uint32_t b) {
  return two(g, "Sub", a, b);
}

static inline uint32_t mul(keel_gradient *g, uint32_t a, uint32_t b) {
  return two(g, "Mul", a, b);
}

static inline uint32_t over(keel_gradient *g, uint32_t a, uint32_t b) {
  return two(g, "Div", a, b);
}

/* value * factor, and value + term */
static inline uint32_t scaled(keel_gradient *g, uint32_t value, double factor) {
  return mul(g, value, keel_emit_number(g->all, factor, value));
}

static inline uint32_t plus(keel_gradient *g, uint32_t value, double term) {
  return add(g, value, keel_emit_number(g->all, term, value));
}

/* A comparison with a number. */
static inline uint32_t compared(keel_gradient *g, const char *op,
                                uint32_t value, double with) {
  return two(g, op, value, keel_emit_number(g->all, with, value));
}

#endif /* KEEL_GRADIENT_TERMS_H */
