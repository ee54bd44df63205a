/* region.h - what the rules of regions share (region_part.c). */
#ifndef KC_RULES_REGION_H
#define KC_RULES_REGION_H

#include "suite/sample.h"

/* One claimed part of a sample. */
typedef struct region_part {
  const kc_sample *of;
  struct kd_graph graph;
  char text[160];
} region_part;

/* What the plugin claims of a sample, and one of the claimed parts. */
kc_claimed region_claim(const kc_sample *s);
region_part region_part_of(const kc_sample *s, const kc_claimed *claims,
                           uint32_t index);

/* Compiles a claimed part; NULL where the plugin has the host run it op by op. */
kd_region *region_compile(const region_part *p);

void region_destroy(kd_region *region);

/* The input that an output is to lie over: where it must, and, with `may`, where it may and
 * both have one type; -1: none. */
int region_lies_over(kd_region *region, const region_part *p, uint32_t output,
                     bool may);

/* Runs a region on the values of a sample, and compares what comes out; with `may`,
 * outputs lie over inputs where they may. */
void region_check_laid(kd_region *region, const region_part *p,
                       const kc_sample *data, bool may, const char *what);
/* The same, with outputs over inputs where they must. */
void region_check(kd_region *region, const region_part *p,
                  const kc_sample *data, const char *what);

/* The first sample, from *index on, that it claims a part of and compiles. The rule is
 * not tested where there is none at all. */
kd_region *region_find(uint32_t *index, kc_random *random, region_part *out);
/* The first of all. */
kd_region *region_first(region_part *out);
/* Frees its sample. */
void region_part_free(region_part *p);

/* The rule of regions that differ in little; region_apart.c. */
void region_apart(void);

#endif /* KC_RULES_REGION_H */
