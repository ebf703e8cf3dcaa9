package dev.squall.android;

/** Listens to the mobile network. */
interface CellWatch {
    /** Listens no more. */
    void stop();
}
