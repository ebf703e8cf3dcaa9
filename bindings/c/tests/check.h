/* Aborts with the line and the last error if a condition does not hold. */

#include <stdio.h>
#include <stdlib.h>

#include "squall.h"

#define CHECK(condition)                                                                                                 \
    do {                                                                                                                 \
        if (!(condition)) {                                                                                              \
            fprintf(stderr, "line %d: %s; last error: %s\n", __LINE__, #condition, squall_last_error());                 \
            abort();                                                                                                     \
        }                                                                                                                \
    } while (0)
