/* upgrade.h - old forms that take a file of their own. */
#ifndef KEEL_UPGRADE_H
#define KEEL_UPGRADE_H

#include "program/draft.h"

/* Scan of opset 8, whose inputs have a batch's axis before all others, and may have another length
 * for each of the batch (upgrade_scan.c). */
keel_status keel_upgrade_scan(keel_draft *draft);

#endif /* KEEL_UPGRADE_H */
