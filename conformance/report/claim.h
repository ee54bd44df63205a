/* claim.h - whether results can stand for a plugin, and for what. */
#ifndef KC_CLAIM_H
#define KC_CLAIM_H

#include "runner/results.h"

/* What keeps results from being a claim, failed rules aside: lines changed or cut
 * off, a part of the rules, a rule that is missing, made no check, fails as expected, or is
 * not what its cases make it. NULL where nothing does; else a text that the next call overwrites. */
const char *kc_claim_flaw(const kc_results *results);

/* Whether results prove a level or option that the tables claim: a must-rule of it
 * passed, none was left without something to test or was not run, and of the areas
 * that it needs more than half of the rules applied. Failures count elsewhere. */
bool kc_claim_proven(const kc_results *results, kc_level level);

/* Why a level or option that the tables claim is not proven; false where it is, or where they
 * don't claim it. */
bool kc_claim_gap(const kc_results *results, kc_level level, char *out,
                  size_t size);

/* What is proven, whatever failed: "level 2 replay + profile". */
void kc_claim_text(const kc_results *results, char *out, size_t size);

typedef enum kc_claim_kind {
  KC_CLAIM_OK,      /* a level is proven */
  KC_CLAIM_NONE,    /* nothing failed, and no level is proven */
  KC_CLAIM_PART,    /* a part of the rules or cases ran */
  KC_CLAIM_BAD,     /* not conformant */
  KC_CLAIM_CUT,     /* the record has no end */
  KC_CLAIM_CHANGED, /* its lines are not as they were written */
} kc_claim_kind;

/* What every report says of results: the levels, "no level", "part of the rules", "not
 * conformant", "incomplete" or "changed". Only KC_CLAIM_OK claims something. */
kc_claim_kind kc_claim_verdict(const kc_results *results, char *out,
                               size_t size);

#endif /* KC_CLAIM_H */
