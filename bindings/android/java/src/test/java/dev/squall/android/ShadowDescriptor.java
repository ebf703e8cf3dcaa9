package dev.squall.android;

import android.os.ParcelFileDescriptor;

import org.robolectric.annotation.Implementation;
import org.robolectric.annotation.Implements;
import org.robolectric.annotation.RealObject;
import org.robolectric.shadow.api.Shadow;

import java.io.FileDescriptor;
import java.lang.reflect.Field;

/**
 * Simulates the part of {@link ParcelFileDescriptor} that the library uses and Robolectric does not simulate.
 * On a phone, the number is that of a second descriptor for the same socket; here it is that of the first.
 */
@Implements(ParcelFileDescriptor.class)
public final class ShadowDescriptor {
    /** Number of descriptors that have been handed out and not closed yet. */
    static int open;

    @RealObject private ParcelFileDescriptor real;
    private FileDescriptor descriptor;

    @Implementation
    protected static ParcelFileDescriptor fromFd(int fd) throws ReflectiveOperationException {
        FileDescriptor descriptor = new FileDescriptor();
        number().setInt(descriptor, fd);
        ParcelFileDescriptor made = Shadow.newInstanceOf(ParcelFileDescriptor.class);
        ((ShadowDescriptor) Shadow.extract(made)).descriptor = descriptor;
        open++;
        return made;
    }

    @Implementation
    protected FileDescriptor getFileDescriptor() {
        return descriptor;
    }

    @Implementation
    protected void close() {
        open--;
    }

    /** Returns the number of a descriptor. */
    static int of(FileDescriptor descriptor) throws ReflectiveOperationException {
        return number().getInt(descriptor);
    }

    private static Field number() throws NoSuchFieldException {
        Field field = FileDescriptor.class.getDeclaredField("fd");
        field.setAccessible(true);
        return field;
    }
}
