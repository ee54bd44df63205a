/* exchange.h - ops of a model by which ranks exchange values. */
#ifndef KEEL_ONNX_EXCHANGE_H
#define KEEL_ONNX_EXCHANGE_H

#include "program/draft.h"

/* The input of a program that is the handle of its rank. */
#define KEEL_ONNX_MEMBER "keel.member"

bool keel_onnx_is_exchange(const keel_draft *draft);

/* Gives an exchange the handle as its first input, and Keel's name. */
keel_status keel_onnx_exchange(keel_draft *draft, uint32_t member);

#endif /* KEEL_ONNX_EXCHANGE_H */
