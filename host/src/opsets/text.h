/* text.h - ops written as text: how simpler ops write an op, and gradients.
 *
 *     "a = Softplus($0); %0 = $0 * Tanh(a)"
 *     "s = Sigmoid(@alpha * $0); $0 = ^0 * (s + $0 * s * (1 - s))"
 *
 * A text is a list of "TARGET = EXPRESSION", or an expression alone, whose value is the text's:
 *
 *     $0 %0 ^0      an input of the op, an output, and in a gradient the gradient of an output; _ is
 *                   an argument that is absent
 *     %v            the next argument of the call: a value
 *     name          a value that the text has named
 *     Op(a, b)      an op; Op* takes over all attributes, Op+ all but keepdims. DOMAIN::Op
 *     Op[axis=-1, perm=(0 2 1), alpha=0.5, mode=tanh, alpha=@alpha](a)
 *                   with attributes; 1 is an integer, 1.0 a float; @NAME: this op's, given or by
 *                   default; without either, none
 *     %s[...](a)    the op, or an attribute's word, is the next argument: a string
 *     1.5 @alpha %f a number: a literal, an attribute, the next argument (double). As an operand it
 *                   is a scalar of the other operand's element type, as an argument of an op of
 *                   that of its first value; 1.5~x is of x's
 *     {0, -1, %i, @axes, x}
 *                   a list of i64: literals, max (INT64_MAX), arguments (int64_t), attributes,
 *                   lists
 *     %l            a list, or an attribute's: the next arguments, const int64_t * and its length
 *     dims(x, 0, 2) a list of dimensions [0, 2) of x; dims(x) of all
 *     range(n)      0, 1 ... of i64; n: a list of one
 *     f32(x)        x as another element type; any type's name
 *     self(a, b)    this op with its attributes
 *     -a a*b a/b a+b a-b a<b a<=b a>b a>=b a==b
 *                   ops of ONNX. Of numbers alone, a number
 *     $1 ? a : b    decided when it is written: whether an input is there, an output is read (%1),
 *                   @NAME is not zero, or is a word (@mode=tanh), or %b, an int, is not 0; ! negates
 *     %i = a        gives the output that is the next argument (int64_t)
 *     %p = a        for the caller: the next argument is its place, uint32_t *
 *     a, b = TopK($0, $1)
 *                   an op with several outputs
 *
 * Names begin with a small letter, ops with a capital. ~ binds closest: -1~x is Neg(1~x), and (-1)~x a
 * number. A condition stands at the beginning of an expression. A number alone has $0's type; of f32,
 * one that is too large is the largest finite one. Arguments are used up from left to right, also
 * those of branches that are not taken: %i and the length of %l are int64_t, %b is an int, %f a
 * double, %v a uint32_t.
 *
 * An output that nobody reads, or in a gradient an input whose gradient nobody asks for, is not
 * computed. In a gradient the target is an input: "$0 = x", or "$0 ~= x", summed over what was
 * broadcast. */
#ifndef KEEL_TEXT_H
#define KEEL_TEXT_H

#include "program/emit.h"

/* What a text reads and gives. */
typedef struct keel_text_of {
  keel_emit *all;
  const keel_opdef *op; /* whose attributes it names; NULL: it names none */
  void *context;
  uint32_t (*read)(void *context, char sigil, uint32_t index);
  /* NULL, both: no target is an input or an output */
  bool (*wants)(void *context, char sigil, uint32_t index);
  void (*give)(void *context, char sigil, uint32_t index, uint32_t value,
               bool narrow);
} keel_text_of;

/* Writes a text; returns its last value, or KEEL_ABSENT. */
uint32_t keel_text_write(const keel_text_of *of, const char *text,
                         va_list arguments);

/* The same for an op that is written with simpler ones. */
uint32_t keel_emit_text(keel_emit *all, const char *text, ...);

/* Calls `found` with each op of ONNX that a text names, but for comparisons by sign, until it returns
 * false. Returns whether it never did. */
bool keel_text_ops(const char *text,
                   bool (*found)(void *context, const char *op), void *context);

#endif /* KEEL_TEXT_H */
