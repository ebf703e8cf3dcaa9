package dev.squall.android;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/** Marks code that may be loaded on newer systems only. The build checks everything else against API 26. */
@Retention(RetentionPolicy.CLASS)
@Target({ElementType.TYPE, ElementType.METHOD})
@interface RequiresApi {
    /** The lowest API level. */
    int value();
}
