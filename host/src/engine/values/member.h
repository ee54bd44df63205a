/* member.h - a program's handle of the group that runs it, by which its exchanges reach the other
 * members. */
#ifndef KEEL_MEMBER_H
#define KEEL_MEMBER_H

#include "values/resource.h"

#define KEEL_MEMBERS_MOST 1024 /* of a group whose members exchange values */

typedef enum keel_exchange_kind {
  KEEL_ALL_REDUCE,
  KEEL_ALL_GATHER,
  KEEL_REDUCE_SCATTER,
  KEEL_ALL_TO_ALL,
  KEEL_BROADCAST,
  KEEL_PERMUTE,
  /* of two members, from here on */
  KEEL_SEND,
  KEEL_RECEIVE
} keel_exchange_kind;

/* One exchange; equal for all members, except messages between two. */
typedef struct keel_exchange {
  keel_exchange_kind kind;
  uint32_t reduction;    /* KD_REDUCE_* */
  uint32_t size;         /* members of each subgroup; 0: all are one */
  int64_t rank_count;    /* of all subgroups, or of a Permute's pairs */
  const int64_t *ranks;  /* borrowed; of a Permute: from, to, from, to ... */
  uint32_t peer;         /* of a Send: to; of a Receive: from */
  const keel_type *type; /* of the received value */
} keel_exchange;

static inline bool keel_exchange_is_of_two(const keel_exchange *what) {
  return what->kind >= KEEL_SEND;
}

/* A member of a group: the functions that the group provides (ranks/group/rendezvous.c,
 * ranks/link/member.c). */
typedef struct keel_member keel_member;
struct keel_member {
  uint32_t rank, size;
  /* Contributes a value to an exchange, and returns a value that is pending until all members have
   * arrived. A Send returns its own value, ready when the group no longer uses it; a Receive
   * contributes none. name: the op's, which stays; where: its node, borrowed; for messages. */
  keel_status (*meet)(keel_member *self, const keel_exchange *what,
                      const char *name, const char *where, keel_tensor *value,
                      keel_tensor **out_value);
  /* This member has left out an exchange, so that its later ones would match others of another
   * number: all later exchanges fail, with this failure. */
  void (*lose)(keel_member *self, keel_tensor *failure);
  /* It has no references any more. */
  void (*leave)(keel_member *self);
};

/* Makes a value of it, which takes it over if KD_OK is returned. */
keel_status keel_member_value(keel_context *context, keel_member *member,
                              keel_tensor **out_value);
/* Whether some of the values (each may be NULL) are members. */
bool keel_members_among(keel_tensor *const *values, uint32_t count);
/* For all members among some values (a value may be NULL), whose run leaves out exchanges: calls
 * `lose`. The failure is this thread's message, and stays so. */
void keel_members_fail(keel_tensor *const *values, uint32_t count,
                       keel_status failure);

/* NULL: it is another kind of resource. */
keel_member *keel_member_of(const keel_resource *resource);

#endif /* KEEL_MEMBER_H */
