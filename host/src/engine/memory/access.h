/* access.h - a tensor's data where the host reaches it. */
#ifndef KEEL_ACCESS_H
#define KEEL_ACCESS_H

#include "values/tensor.h"

/* The value in memory that the host can address, row-major. */
keel_status keel_tensor_to_host(keel_tensor *tensor, keel_tensor **out_tensor);

#endif /* KEEL_ACCESS_H */
