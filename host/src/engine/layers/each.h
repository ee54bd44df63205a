/* each.h - a macro for each argument of a slot (slots.def), which has eight at most. */
#ifndef KEEL_EACH_H
#define KEEL_EACH_H

#define KEEL_EACH_1(f, a)                             f(a)
#define KEEL_EACH_2(f, a, ...)                        f(a) KEEL_EACH_1(f, __VA_ARGS__)
#define KEEL_EACH_3(f, a, ...)                        f(a) KEEL_EACH_2(f, __VA_ARGS__)
#define KEEL_EACH_4(f, a, ...)                        f(a) KEEL_EACH_3(f, __VA_ARGS__)
#define KEEL_EACH_5(f, a, ...)                        f(a) KEEL_EACH_4(f, __VA_ARGS__)
#define KEEL_EACH_6(f, a, ...)                        f(a) KEEL_EACH_5(f, __VA_ARGS__)
#define KEEL_EACH_7(f, a, ...)                        f(a) KEEL_EACH_6(f, __VA_ARGS__)
#define KEEL_EACH_8(f, a, ...)                        f(a) KEEL_EACH_7(f, __VA_ARGS__)
#define KEEL_NINTH(a, b, c, d, e, f, g, h, name, ...) name
#define KEEL_EACH_OF(f, ...)                                                  \
  KEEL_NINTH(__VA_ARGS__, KEEL_EACH_8, KEEL_EACH_7, KEEL_EACH_6, KEEL_EACH_5, \
             KEEL_EACH_4, KEEL_EACH_3, KEEL_EACH_2, KEEL_EACH_1, )            \
  (f, __VA_ARGS__)
#define KEEL_LIST(...) __VA_ARGS__

/* KEEL_EACH(f, (a, b)) is f(a) f(b). */
#define KEEL_EACH(f, arguments) KEEL_EACH_OF(f, KEEL_LIST arguments)

#endif /* KEEL_EACH_H */
