/* locale.h - numbers in text have a point, whatever the application's locale: what reads or writes
 * them stands between keel_plain_begin and keel_plain_end. */
#ifndef KEEL_LOCALE_H
#define KEEL_LOCALE_H

#include <locale.h>

typedef struct keel_plain {
  locale_t own, before; /* own: 0 without memory: the locale stays as it is */
} keel_plain;

/* Of this thread. */
static inline keel_plain keel_plain_begin(void) {
  locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return (keel_plain){own, own ? uselocale(own) : (locale_t)0};
}

static inline void keel_plain_end(keel_plain plain) {
  if (!plain.own) return;
  uselocale(plain.before);
  freelocale(plain.own);
}

#endif /* KEEL_LOCALE_H */
