/* places.c - places for values, used again and again. */
#include "exec/places.h"

static uint64_t aligned(uint64_t size, uint64_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

/* ---- what comes before what ------------------------------------------------------ */

static uint64_t *before_of(const keel_places *places, uint32_t step) {
  return places->before + (size_t)step * places->words;
}

static bool comes_before(const keel_places *places, uint32_t first,
                         uint32_t second) {
  return before_of(places, second)[first / 64] >> first % 64 & 1;
}

static void order_steps(keel_places *places) {
  const keel_fplan *fplan = places->fplan;
  for (uint32_t i = 0; i < fplan->step_count; i++)
    for (uint32_t k = 0; k < fplan->steps[i].follower_count; k++) {
      uint64_t *to = before_of(places, fplan->steps[i].followers[k]);
      const uint64_t *from = before_of(places, i);
      for (uint32_t w = 0; w < places->words; w++)
        to[w] |= from[w];
      to[i / 64] |= UINT64_C(1) << i % 64;
    }
}

/* Twice: to count, then to fill. */
static void list_readers(keel_places *places) {
  const keel_fplan *fplan = places->fplan;
  uint32_t *first = places->first_reader;
  for (int fill = 0; fill < 2; fill++) {
    for (uint32_t i = 0; i < fplan->step_count; i++)
      for (uint32_t k = 0; k < fplan->steps[i].input_count; k++) {
        uint32_t value = fplan->steps[i].inputs[k];
        if (value == KEEL_ABSENT) continue;
        if (fill)
          places->readers[first[places->base[value] + 1]++] = i;
        else
          first[places->base[value] + 2]++;
      }
    for (uint32_t v = 0; v < fplan->value_count && !fill; v++)
      first[v + 2] += first[v + 1];
  }
}

keel_status keel_places_begin(keel_places *places, keel_fplan *fplan,
                              const uint32_t *base) {
  size_t steps = fplan->step_count, values = fplan->value_count, reads = 0;
  for (uint32_t i = 0; i < fplan->step_count; i++)
    reads += fplan->steps[i].input_count;
  places->fplan = fplan;
  places->base = base;
  places->words = (uint32_t)(steps + 63) / 64;
  places->before = calloc(steps * places->words + 1, sizeof *places->before);
  places->first_reader = calloc(values + 3, sizeof *places->first_reader);
  places->readers = calloc(reads + 1, sizeof *places->readers);
  places->place_of = malloc((values + 1) * sizeof *places->place_of);
  places->stay_of = malloc((values + 1) * sizeof *places->stay_of);
  if (!places->before || !places->first_reader || !places->readers ||
      !places->place_of || !places->stay_of)
    return keel_no_memory(steps * places->words * sizeof *places->before);
  for (size_t v = 0; v < values; v++)
    places->place_of[v] = places->stay_of[v] = KEEL_ABSENT;
  order_steps(places);
  list_readers(places);
  return KD_OK;
}

/* ---- places ------------------------------------------------------------------------ */

/* Whether all that use what lies in a place have run before `step`, but for itself. */
static bool is_over(const keel_places *places, const keel_place *place,
                    uint32_t step, bool but_itself) {
  if (place->value == KEEL_ABSENT)
    return comes_before(places, place->step, step);
  uint32_t from = places->first_reader[place->value];
  uint32_t end = places->first_reader[place->value + 1];
  if (from == end) return comes_before(places, place->step, step);
  for (uint32_t i = from; i < end; i++) {
    uint32_t reader = places->readers[i];
    if (reader == step ? !but_itself : !comes_before(places, reader, step))
      return false;
  }
  return true;
}

/* The place of an input that this step alone still reads, once, or KEEL_ABSENT. */
static uint32_t place_of_input(const keel_places *places, uint32_t index,
                               uint64_t bytes, uint32_t inplace) {
  const keel_step *step = &places->fplan->steps[index];
  for (uint32_t i = 0; i < step->input_count && i < 32; i++) {
    uint32_t reads = 0, value = step->inputs[i];
    if (!(inplace >> i & 1) || value == KEEL_ABSENT) continue;
    uint32_t place = places->place_of[places->base[value]];
    for (uint32_t k = 0; k < step->input_count; k++)
      reads += step->inputs[k] != KEEL_ABSENT &&
               places->base[step->inputs[k]] == places->base[value];
    if (place != KEEL_ABSENT && reads == 1 &&
        places->fplan->types[value]->bytes == bytes &&
        is_over(places, &places->places[place], index, true))
      return place;
  }
  return KEEL_ABSENT;
}

/* The smallest that is large enough, else the largest: it grows. */
static uint32_t find_free(const keel_places *places, uint32_t step,
                          uint64_t bytes) {
  uint32_t best = KEEL_ABSENT;
  for (uint32_t i = 0; i < places->count; i++) {
    uint64_t size = places->places[i].size;
    uint64_t most = best == KEEL_ABSENT ? 0 : places->places[best].size;
    bool better = best == KEEL_ABSENT ? true
                  : size >= bytes     ? most < bytes || size < most
                                      : most < bytes && size > most;
    if (better && is_over(places, &places->places[i], step, false)) best = i;
  }
  return best;
}

static keel_status note_stay(keel_places *places, uint32_t step, uint32_t value,
                             uint64_t bytes) {
  if (places->stay_count == places->stay_room) {
    uint32_t room = places->stay_room * 2 + 16;
    keel_stay *more = realloc(places->stays, room * sizeof *more);
    if (!more) return keel_no_memory(room * sizeof *more);
    places->stays = more;
    places->stay_room = room;
  }
  keel_stay stay = {step, step, bytes};
  if (value != KEEL_ABSENT) {
    places->stay_of[value] = places->stay_count;
    for (uint32_t i = places->first_reader[value];
         i < places->first_reader[value + 1]; i++)
      if (places->readers[i] > stay.to) stay.to = places->readers[i];
  }
  places->stays[places->stay_count++] = stay;
  places->apart += stay.bytes;
  return KD_OK;
}

keel_status keel_places_take(keel_places *places, uint32_t step, uint32_t value,
                             uint64_t bytes, uint32_t inplace,
                             uint32_t *out_place) {
  uint32_t place = place_of_input(places, step, bytes, inplace);
  if (place != KEEL_ABSENT) /* what lies there ends as this one begins */
    places->stays[places->stay_of[places->places[place].value]].to = step - 1;
  KEEL_TRY(note_stay(places, step, value, bytes));
  if (place == KEEL_ABSENT) place = find_free(places, step, bytes);
  if (place == KEEL_ABSENT) {
    if (places->count == places->room) {
      uint32_t room = places->room * 2 + 16;
      keel_place *more = realloc(places->places, room * sizeof *more);
      if (!more) return keel_no_memory(room * sizeof *more);
      places->places = more;
      places->room = room;
    }
    place = places->count++;
    places->places[place] = (keel_place){0};
  }
  keel_place *at = &places->places[place];
  if (bytes > at->size) at->size = bytes;
  if (!at->size) at->size = 1; /* what is empty has an address, too */
  at->value = value;
  at->step = step;
  if (value != KEEL_ABSENT) places->place_of[value] = place;
  *out_place = place;
  return KD_OK;
}

/* What comes and goes at each step, summed. */
static void find_least(keel_places *places) {
  uint32_t steps = places->fplan ? places->fplan->step_count : 0;
  int64_t *change = calloc(steps + 2, sizeof *change), now = 0;
  for (uint32_t i = 0; change && i < places->stay_count; i++) {
    change[places->stays[i].from] += (int64_t)places->stays[i].bytes;
    change[places->stays[i].to + 1] -= (int64_t)places->stays[i].bytes;
  }
  for (uint32_t i = 0; change && i < steps; i++) {
    now += change[i];
    if ((uint64_t)now > places->least) places->least = (uint64_t)now;
  }
  free(change);
}

void keel_places_end(keel_places *places, uint64_t alignment) {
  find_least(places);
  for (uint32_t i = 0; i < places->count; i++) {
    places->places[i].offset = places->total;
    places->total += aligned(places->places[i].size, alignment);
  }
  free(places->before);
  free(places->first_reader);
  free(places->readers);
  free(places->place_of);
  free(places->stay_of);
  free(places->stays);
  places->before = NULL;
  places->first_reader = places->readers = places->place_of = places->stay_of =
      NULL;
  places->stays = NULL;
  places->base = NULL;
}

void keel_places_free(keel_places *places) {
  free(places->places);
}
