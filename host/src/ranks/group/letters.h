/* letters.h - messages between members of a group, until sender and receiver have both arrived. */
#ifndef KEEL_LETTERS_H
#define KEEL_LETTERS_H

#include "values/member.h"

/* A Send without its Receive yet, or the other way round. */
typedef struct keel_letter {
  struct keel_letter *next;
  uint32_t from, to;
  keel_tensor *value;    /* of a Send */
  keel_tensor *promise;  /* of a Receive */
  const keel_type *type; /* the type that it expects */
  char name[24], where[96];
} keel_letter;

/* In their order of arrival. */
typedef struct keel_letters {
  keel_letter *first, **last;
} keel_letters;

static inline void keel_letters_init(keel_letters *all) {
  *all = (keel_letters){NULL, &all->first};
}

/* Removes the first from one rank to another, of a Send or of a Receive; NULL: none. */
keel_letter *keel_letters_take(keel_letters *all, uint32_t from, uint32_t to,
                               bool sent);

/* A Receive that waits for a rank's next message; NULL: there is none. */
const keel_letter *keel_letters_awaited(const keel_letters *all, uint32_t from);

/* Adds one. Retains the tensor: a Send's value, or a Receive's promise. */
keel_status keel_letters_add(keel_letters *all, const keel_letter *like);

void keel_letter_free(keel_letter *letter);

/* Ends the Receives of a list with a failure (NULL: memory ran out), and frees it. */
void keel_letters_fail(keel_letter *first, keel_tensor *failure);

#endif /* KEEL_LETTERS_H */
