/* upgrade.h - nodes of older opsets. */
#ifndef KEEL_UPGRADE_H
#define KEEL_UPGRADE_H

#include "program/draft.h"

/* Brings a node of an older opset to today's form; may add nodes before it. The tensors
 * of the attributes that it drops are released.
 * Returns KD_OK, KD_UNIMPLEMENTED (an opset that Keel does not know, or an old form that it
 * has no way for), KD_DATA_LOSS (no such form), KD_OUT_OF_MEMORY. */
keel_status keel_draft_upgrade(keel_draft *draft);

/* Scan of opset 8, whose inputs have a batch's axis before all others, and may have another length
 * for each of the batch (upgrade_scan.c). */
keel_status keel_upgrade_scan(keel_draft *draft);

#endif /* KEEL_UPGRADE_H */
