/* combine_typed.h - how updates meet elements of one type: NAMED(add) and so on. */
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
