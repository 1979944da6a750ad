// Runs sluice in a container, for a test.
import { AbstractStartedContainer, GenericContainer, Wait } from "testcontainers";

const port = 9090, s3Port = 9000; // in the container

// SluiceContainer is a local instance, which needs no keys, of an image that make dist has made.
export class SluiceContainer extends GenericContainer {
  constructor(image) {
    super(image);
    this.withFlags().withExposedPorts(port, s3Port).withWaitStrategy(Wait.forHttp("/readyz", port));
  }

  // withFlags adds flags of serve.
  withFlags(...flags) {
    return this.withCommand(["serve", "--open-to-network", ...flags]);
  }

  async start() {
    return new StartedSluiceContainer(await super.start());
  }
}

export class StartedSluiceContainer extends AbstractStartedContainer {
  // url returns the native interface's base URL.
  url() {
    return `http://${this.getHost()}:${this.getMappedPort(port)}`;
  }

  // s3url returns the endpoint for S3's clients, which need path style and any credentials.
  s3url() {
    return `http://${this.getHost()}:${this.getMappedPort(s3Port)}`;
  }
}
