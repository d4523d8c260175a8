package lethe.conformance;

import java.io.File;
import java.nio.file.Path;
import org.apache.iceberg.Files;
import org.apache.iceberg.exceptions.RuntimeIOException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;

/**
 * The local file system without Hadoop, as the client's half of the suites needs it. Names are
 * taken byte for byte, as the server takes them: a percent sign stays one.
 */
public class LocalFileIO implements FileIO {
  private static final String SCHEME = "file:";

  @Override
  public InputFile newInputFile(String location) {
    return Files.localInput(file(location));
  }

  @Override
  public OutputFile newOutputFile(String location) {
    return Files.localOutput(file(location));
  }

  @Override
  public void deleteFile(String location) {
    try {
      java.nio.file.Files.deleteIfExists(file(location).toPath());
    } catch (java.io.IOException e) {
      throw new RuntimeIOException(e, "Failed to delete file: %s", location);
    }
  }

  /** {@code file:/a}, {@code file:///a} and {@code /a} are the same file. */
  private static File file(String location) {
    String path = location.startsWith(SCHEME) ? location.substring(SCHEME.length()) : location;
    return Path.of(path).toFile();
  }
}
