/* robust.h - checks of data that no well-meaning model has, which robust.c lists. */
#ifndef KC_RULES_ROBUST_H
#define KC_RULES_ROBUST_H

/* Leaves the case as unclaimed where the plugin has no kernel for the op. */
void robust_need_op(const char *op);

/* robust_index.c */
void robust_indices(void);

#endif /* KC_RULES_ROBUST_H */
