/* group.h - what the rules of groups share (group.c, group_join.c). */
#ifndef KC_RULES_GROUP_H
#define KC_RULES_GROUP_H

#include "rules/rules.h"

enum { N = 12 };

/* A member of a group: what it gives, and what it gets. */
typedef struct group_member {
  kd_device *device;
  kd_stream *stream;
  kc_buffer *in, *out;
  float x[2 * N], y[2 * N];
} group_member;
extern group_member group_members[2];

/* Fills the members with values of their own; leaves the case where there are no two. */
void group_fill(void);
/* Waits for their streams, and reads what they have got. */
void group_read(void);
/* Compares that. */
void group_check(uint32_t kind, uint32_t reduction, uint32_t root,
                 const char *what);

kd_tensor group_view(kc_buffer *buffer, const int64_t *dims);
/* Of a member's input or output. */
const int64_t *group_dims(uint32_t kind, bool output);

/* The rules of groups that members join; group_join.c. */
void group_id(void);
void group_join(void);
void group_join_order(void);
void group_join_refused(void);
void group_abort(void);

#endif /* KC_RULES_GROUP_H */
