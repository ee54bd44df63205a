/* random.h - a counter-based generator of random numbers. */
#ifndef KEEL_RANDOM_H
#define KEEL_RANDOM_H

#include <stdint.h>

/* Philox 4x32-10: four words of a key and a counter. */
void keel_philox(const uint32_t key[2], const uint32_t counter[4],
                 uint32_t out_words[4]);

#endif /* KEEL_RANDOM_H */
