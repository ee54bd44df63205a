/* places.h - which values of a function may lie in the same memory: where a step writes,
 * everything that was read there has been read by steps that come before it, in
 * whatever order steps run. */
#ifndef KEEL_PLACES_H
#define KEEL_PLACES_H

#include "exec/plan.h"

typedef struct keel_place {
  uint64_t offset, size;
  uint32_t
      value; /* that lies there now; KEEL_ABSENT: scratch memory of `step` */
  uint32_t step; /* that wrote it */
} keel_place;

/* What was asked for: from the step that writes it to the last one that reads it. */
typedef struct keel_stay {
  uint32_t from, to;
  uint64_t bytes;
} keel_stay;

typedef struct keel_places {
  keel_fplan *fplan;
  const uint32_t *base; /* by value: the one it is a view of, or itself */
  keel_place *places;
  uint32_t count, room;
  uint64_t total; /* bytes of all */
  uint64_t apart; /* if nothing shared */
  uint64_t
      least; /* the most that is needed at once where steps run in their order */
  uint64_t *before; /* bits, by step: the steps that come before it */
  uint32_t words;
  uint32_t *first_reader,
      *readers;       /* by value: steps that read it or a view of it */
  uint32_t *place_of; /* by value, or KEEL_ABSENT */
  uint32_t *stay_of;  /* the same */
  keel_stay *stays;
  uint32_t stay_count, stay_room;
} keel_places;

/* Steps are sorted. To be ended and freed, also where it fails. */
keel_status keel_places_begin(keel_places *places, keel_fplan *fplan,
                              const uint32_t *base);

/* A place for what `step` writes: output `value`, or scratch memory (KEEL_ABSENT).
 * Steps come in their order. inplace: bits of inputs whose memory it may take. */
keel_status keel_places_take(keel_places *places, uint32_t step, uint32_t value,
                             uint64_t bytes, uint32_t inplace,
                             uint32_t *out_place);

/* Sets offsets, multiples of `alignment`, and the total, and lets go of what only that
 * took. */
void keel_places_end(keel_places *places, uint64_t alignment);
void keel_places_free(keel_places *places);

#endif /* KEEL_PLACES_H */
