/* keel/debug.h - plans with something left out, for tests and comparison: flags of
 * keel_plan_params. No application needs them.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef KEEL_DEBUG_H
#define KEEL_DEBUG_H

#include <keel/program.h>

/* Each op is called as by keel_call, in the order of the values: no optional
 * pass runs, and nothing is planned ahead. For comparison. */
#define KEEL_PLAN_EAGER 0x10u

/* Dynamic shapes: a plan is specialised for each set of input types that recurs, as if the
 * program declared them (keel_plan_params.version_bytes). This flag turns that off. */
#define KEEL_PLAN_ONE 0x20u

/* On a device that can record, a function that consists of the device's kernels
 * is recorded after a few runs, and from then on launched as a whole. This flag
 * launches each kernel by itself. */
#define KEEL_PLAN_NO_REPLAY 0x40u

#endif /* KEEL_DEBUG_H */
