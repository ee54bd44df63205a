/* err.h - checks of how calls fail that err.c lists. */
#ifndef KC_RULES_ERR_H
#define KC_RULES_ERR_H

/* err_kernel.c */
void err_alloc_fail_kernel(void);

#endif /* KC_RULES_ERR_H */
