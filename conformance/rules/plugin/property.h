/* property.h - the rules on properties, which stand in the tables of dev.c and abi.c. */
#ifndef KC_RULES_PROPERTY_H
#define KC_RULES_PROPERTY_H

/* The size of kd_property in ABI 0.10: frozen. */
#define PROPERTY_010 56u

void kc_properties(void);
void kc_properties_stable(void);
void kc_property_bounded(void);

#endif /* KC_RULES_PROPERTY_H */
