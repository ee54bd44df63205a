/* combine_typed.h - how updates meet elements of one type.
 *
 * COMBINE(reduction, expression), of each row in rules.def, defines NAMED(reduction)(to, from,
 * n): each p of `to` becomes the expression of p and q of `from`. */
#define COMBINE(reduction, expression)                                  \
  static void NAMED(reduction)(void *to, const void *from, int64_t n) { \
    S *py = to;                                                         \
    const S *px = from;                                                 \
    for (int64_t i = 0; i < n; i++) {                                   \
      const C p = LOAD(py[i]), q = LOAD(px[i]);                         \
      py[i] = STORE((C)(expression));                                   \
    }                                                                   \
  }
#include "families/rules.def"
