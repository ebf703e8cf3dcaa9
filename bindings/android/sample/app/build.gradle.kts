plugins {
    id("com.android.application") version "8.13.0"
    id("org.jetbrains.kotlin.android") version "2.4.21"
}

android {
    namespace = "dev.squall.sample"
    compileSdk = 35

    defaultConfig {
        applicationId = "dev.squall.sample"
        minSdk = 26
        targetSdk = 35
        versionCode = 1
        versionName = "0.1.0"
    }

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_17
        targetCompatibility = JavaVersion.VERSION_17
    }
}

dependencies {
    // `make android` makes both; the first needs the native library for phones inside (docs/android.md).
    implementation(files("../../java/target/squall-android-0.1.0.aar"))
    implementation(files("../../kotlin/target/squall-android-kotlin-0.1.0.jar"))
    implementation("org.jetbrains.kotlinx:kotlinx-coroutines-android:1.11.0")
}
