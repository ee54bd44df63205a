/* claim.h - whether results can stand for a plugin, and for what. */
#ifndef KC_CLAIM_H
#define KC_CLAIM_H

#include "runner/results.h"

/* What keeps results from being a claim, failed rules aside: lines changed or cut
 * off, a part of the rules, a rule that is missing, made no check, fails as expected, or is
 * not what its cases make it. NULL where nothing does; else a text that the next call overwrites. */
const char *kc_claim_flaw(const kc_results *results);

/* Whether results prove a level or option that the tables claim: a must-rule of it
 * passed, and none was left without something to test or was not run. A rule that
 * does not apply, for an optional slot that is NULL, does no harm. Failures count
 * elsewhere. */
bool kc_claim_proven(const kc_results *results, kc_level level);

/* What is proven: "level 2 replay + profile". */
void kc_claim_text(const kc_results *results, char *out, size_t size);

#endif /* KC_CLAIM_H */
