/* letters.c - lists of messages between members of a group. */
#include "ranks/group/letters.h"

#include "values/tensor.h"

keel_letter *keel_letters_take(keel_letters *all, uint32_t from, uint32_t to,
                               bool sent) {
  for (keel_letter **link = &all->first; *link; link = &(*link)->next) {
    keel_letter *at = *link;
    if (at->from != from || at->to != to || (at->value != NULL) != sent)
      continue;
    *link = at->next;
    if (!*link) all->last = link;
    return at;
  }
  return NULL;
}

const keel_letter *keel_letters_awaited(const keel_letters *all,
                                        uint32_t from) {
  for (const keel_letter *at = all->first; at; at = at->next)
    if (at->promise && at->from == from) return at;
  return NULL;
}

keel_status keel_letters_add(keel_letters *all, const keel_letter *like) {
  keel_letter *made = malloc(sizeof *made);
  if (!made) return keel_no_memory(sizeof *made);
  *made = *like;
  made->next = NULL;
  if (made->value) keel_tensor_retain(made->value);
  if (made->promise) keel_tensor_retain(made->promise);
  *all->last = made;
  all->last = &made->next;
  return KD_OK;
}

void keel_letter_free(keel_letter *letter) {
  keel_tensor_release(letter->value);
  keel_tensor_release(letter->promise);
  free(letter);
}

void keel_letters_fail(keel_letter *first, keel_tensor *failure) {
  while (first) {
    keel_letter *at = first;
    first = at->next;
    if (at->promise && failure)
      keel_tensor_follow(at->promise, failure);
    else if (at->promise)
      keel_tensor_resolve_failed(at->promise, KD_OUT_OF_MEMORY);
    keel_letter_free(at);
  }
}
